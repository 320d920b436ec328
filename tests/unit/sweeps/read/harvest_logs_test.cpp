// Tests the reports in the logs of a sweep's trials, and the requests for the logs.
#include <chrono>
#include <mutex>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli/util/text.h"
#include "sweeps/objects/ledger_store.h"
#include "sweeps/read/fetch.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/read/harvest_logs");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::Sweeper;

namespace {

std::string lines_told(int count, const std::string& line = "mlk step={} accuracy={}") {
  std::string out;
  for (int i = 1; i <= count; ++i) out += fmt::format(fmt::runtime(line), i, i == 37 ? 0.99 : 0.5) + "\n";
  return out;
}

// A sweep of trials that are indexes of one Job, with pods that report in their logs.
struct Logged {
  Sweeper sweeper;
  std::string sweep;
  kube::Client client{sweeper.cluster.config()};
  std::mutex mutex;
  std::vector<std::string> asked;                 // the pods whose logs were read, in order
  std::multimap<std::string, std::string> query;  // of the last request for a log
  std::map<int, std::string> logs;                // by index
  int failures = 0, code = 503;                   // so many requests for logs are refused with this code

  explicit Logged(const std::string& objective = "maximize accuracy", const std::string& steps = "1..3")
      : sweeper("name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1}\nsweep: {parallel: 2" +
                (objective.empty() ? "" : ", objective: " + objective) + "}\n") {
    sweep = sweeper.start({"steps=" + steps}).sweep;
    sweeper.cluster.before([this](const local::Request& request) -> std::optional<local::Answer> {
      if (!request.path.ends_with("/log")) return std::nullopt;
      const std::lock_guard lock(mutex);
      const std::string pod = request.path.substr(0, request.path.size() - 4);
      asked.push_back(pod.substr(pod.rfind('/') + 1));
      query = {request.query.begin(), request.query.end()};
      if (failures-- > 0) return test::refusal(code, "NodeStarts", "dial tcp: connection refused");
      const std::string number = asked.back().substr(asked.back().find("-trial-") + 7);
      local::Answer answer;
      answer.content_type = "text/plain";
      const std::vector<std::string> lines = split(logs[std::stoi(number)], '\n');
      const std::size_t wanted = std::stoul(query.find("tailLines")->second);
      for (std::size_t i = lines.size() - std::min(lines.size(), wanted); i < lines.size(); ++i)
        answer.body += "2026-11-23T10:00:02.000000000Z " + lines[i] + "\n";
      answer.body.resize(std::min(answer.body.size(), std::stoul(query.find("limitBytes")->second)));
      return answer;
    });
  }
  void add_pod(int index, bool ended, const json& result = nullptr,
               const std::string& at = "2026-11-23T10:00:05Z") {
    json pod = test::pod_of(sweep, ended ? "Succeeded" : "Running", "trial", index);
    pod["metadata"]["labels"]["mlk.dev/sweep"] = sweep;
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = sweep + "-trials-0";
    const json running = {{"running", {{"startedAt", "2026-11-23T10:00:01Z"}}}};
    const json terminated = {{"terminated",
                              {{"exitCode", 0},
                               {"startedAt", "2026-11-23T10:00:01Z"},
                               {"finishedAt", at},
                               {"message", result.is_null() ? "" : result.dump()}}}};
    pod["status"]["containerStatuses"] = {{{"name", "main"}, {"state", ended ? terminated : running}}};
    sweeper.cluster.store.create("pods", pod);
  }
  SweepStatus read(Harvest harvest = Harvest::running) {
    asked.clear();
    return read_sweep(client, "default", sweep, harvest);
  }
  std::size_t in_ledger() {
    return read_ledger(sweep, fetch_sweep(client, "default", sweep, WithPods::no).config_maps).size();
  }
};

json told_result(double accuracy) {
  return {{"schema", 1}, {"step", 1}, {"metrics", {{"accuracy", accuracy}}}, {"done", true}};
}

}  // namespace

TEST_CASE("a long log gives a curve of 64 reports: the first, the last, the best and others") {
  Logged logged;
  logged.add_pod(0, false);
  logged.logs[0] = lines_told(500);
  const Trial trial = logged.read().trials.at(0);
  CHECK(trial.step == 500);
  CHECK(trial.objective == 0.5);
  REQUIRE(trial.curve.size() == 64);
  CHECK(trial.curve.front().first == 1);
  CHECK(trial.curve.back().first == 500);
  CHECK(std::count(trial.curve.begin(), trial.curve.end(), std::pair<std::int64_t, double>(37, 0.99)) == 1);
  CHECK(std::is_sorted(trial.curve.begin(), trial.curve.end()));
  logged.logs[0] = lines_told(64);
  CHECK(logged.read().trials.at(0).curve.size() == 64);
  CHECK(logged.query.find("tailLines")->second == "1000");
  CHECK(logged.query.find("limitBytes")->second == std::to_string(256 * 1024));
}

TEST_CASE(
    "mlk finds the newest report in a log with long lines, and ignores a line that the server has cut") {
  Logged logged;
  logged.add_pod(0, true);
  const std::string padding(300, '.');
  logged.logs[0] = lines_told(1199, "mlk step={} accuracy={} " + padding) + "mlk step=1200 accuracy=0.125";
  const Trial trial = logged.read(Harvest::all).trials.at(0);
  CHECK(trial.step == 1200);
  CHECK(trial.objective == 0.125);
  CHECK(trial.curve.back() == std::pair<std::int64_t, double>(1200, 0.125));
  // A single line that is longer than the limit has no report.
  logged.add_pod(1, false);
  logged.logs[1] = "mlk step=1 accuracy=0.5 " + std::string(300 * 1024, '.');
  CHECK_FALSE(logged.read(Harvest::all).trials.at(1).objective.has_value());
}

TEST_CASE("the objective of a trial comes from its result, even if the log gives the curve") {
  Logged logged;
  logged.add_pod(0, true, told_result(0.95));
  logged.logs[0] = "mlk step=1 accuracy=0.3 loss=2\nmlk step=2 accuracy=0.4 loss=1";
  for (int read = 0; read < 2; ++read) {
    const Trial trial = logged.read(Harvest::all).trials.at(0);
    CHECK(trial.objective == 0.95);
    CHECK(trial.metrics == json{{"accuracy", 0.95}});
    CHECK(trial.step == 1);
    CHECK(trial.curve == std::vector<std::pair<std::int64_t, double>>{{1, 0.3}, {2, 0.4}});
  }
}

TEST_CASE("the curve of a trial has each report once, even if the log is read twice") {
  Logged logged("{maximize: accuracy, of: best}");  // so the log of an ended trial is read each time
  logged.add_pod(0, true);
  logged.logs[0] = "mlk step=1 accuracy=0.25\nmlk step=2 accuracy=0.75";
  for (int read = 0; read < 2; ++read) {
    const Trial trial = logged.read(Harvest::all).trials.at(0);
    CHECK(logged.asked.size() == 1);
    CHECK(trial.curve == std::vector<std::pair<std::int64_t, double>>{{1, 0.25}, {2, 0.75}});
  }
}

TEST_CASE("reports without a step are numbered from 1 in the curve of a trial") {
  Logged logged;
  logged.add_pod(0, false);
  logged.logs[0] = "accuracy=0.25\nmlk step=9 loss=0.5\naccuracy=0.75";
  const Trial trial = logged.read().trials.at(0);
  CHECK(trial.curve == std::vector<std::pair<std::int64_t, double>>{{1, 0.25}, {2, 0.75}});
  CHECK(trial.objective == 0.75);
  CHECK(trial.step == 9);
  CHECK(trial.metrics["loss"] == 0.5);
  CHECK(trial.metrics["accuracy"] == 0.75);
}

TEST_CASE("mlk reads the log of an ended trial once, and the log of a running trial each time") {
  Logged logged;
  logged.add_pod(0, true);
  logged.add_pod(1, false);
  logged.add_pod(2, true);
  logged.logs[0] = logged.logs[1] = logged.logs[2] = "mlk step=3 accuracy=0.5";
  logged.read();
  REQUIRE(logged.asked.size() == 3);
  std::set<std::string> all(logged.asked.begin(), logged.asked.end());
  CHECK(all.size() == 3);
  // The logs of ended trials whose reports are in the ledger are not read again.
  CHECK(logged.in_ledger() == 2);
  logged.read();
  REQUIRE(logged.asked.size() == 1);
  CHECK(logged.asked[0].find("-trial-1-") != std::string::npos);
}

TEST_CASE("mlk reads the log of a trial with a result if the result lacks the curve or the needed value") {
  const auto asked = [](const std::string& objective, double accuracy, const json& curve = nullptr) {
    Logged logged(objective);
    json result = told_result(accuracy);
    if (!curve.is_null()) result["curve"] = curve;
    result["metrics"]["loss"] = 0.5;
    logged.add_pod(0, true, result);
    logged.logs[0] = "mlk step=3 accuracy=0.5 loss=0.5";
    logged.read();
    return logged.asked.size();
  };
  CHECK(asked("maximize accuracy", 0.5) == 1);  // for its curve
  CHECK(asked("minimize loss", 0.5, {{1, 0.5}}) == 0);
  CHECK(asked("{minimize: loss, of: best}", 0.5, {{1, 0.5}}) == 1);
  CHECK(asked("", 0.5, {{1, 0.5}}) == 0);
}

TEST_CASE("a trial gets a verdict if its whole log has no report of the objective") {
  struct Case {
    std::string log, failure;
  };
  const std::string verdict = "never reported accuracy";
  for (const Case& c : std::initializer_list<Case>{
           {lines_told(998, "line {} {}"), verdict},
           {lines_told(999, "line {} {}"),
            ""},  // with the empty line at its end, exactly as many lines as requested
           {std::string(256 * 1024, 'x'), ""},
           {"accuracy is 0.1\naccuracy is 0.2\nthe end",
            verdict +
                ": the nearest line is 'accuracy is 0.2'; print accuracy=VALUE, or give objective.regex"}}) {
    INFO(c.log.size());
    Logged logged;
    logged.add_pod(0, true);
    logged.logs[0] = c.log;
    const SweepStatus status = logged.read(Harvest::all);
    CHECK(status.trials.at(0).failure == c.failure);
    CHECK((status.trials.at(0).state == TrialState::failed) == (c.failure != ""));
    CHECK(status.counts.failed == (c.failure == "" ? 0 : 1));
  }
}

TEST_CASE("before a verdict, mlk reads the log of a trial up to six times if the trial has just ended") {
  Logged logged;
  logged.add_pod(0, true, nullptr, format_time(std::chrono::system_clock::now()));
  logged.logs[0] = "epoch 1";
  // If the time is short, mlk does not read the log again, and gives no verdict: the metric may still come.
  CHECK(logged.read(Harvest::running).trials.at(0).failure == "");
  CHECK(logged.read(Harvest::running).counts.succeeded == 1);
  logged.add_pod(1, true, nullptr, format_time(std::chrono::system_clock::now()));
  logged.logs[0] = "epoch 1\nmlk step=7 accuracy=0.9";
  logged.logs[1] = "epoch 2";
  const SweepStatus status = logged.read(Harvest::all);
  CHECK(status.trials.at(0).objective == 0.9);
  CHECK(status.trials.at(1).failure == "never reported accuracy");
  CHECK(logged.asked.size() == 7);  // the log of the first trial only once
}

TEST_CASE("mlk repeats a request for a log if the server fails and the trial has just ended") {
  enum class Trial { runs, has_just_ended, ended_long_ago };
  struct Case {
    int code;
    Trial trial;
    std::size_t asked;
  };
  for (const Case& c : {Case{500, Trial::has_just_ended, 3},
                        {503, Trial::has_just_ended, 3},
                        {429, Trial::has_just_ended, 3},
                        {404, Trial::has_just_ended, 1},
                        {400, Trial::has_just_ended, 1},
                        {500, Trial::ended_long_ago, 1},
                        {503, Trial::runs, 1}}) {  // the next call reads the log
    INFO(c.code, " ", c.asked);
    Logged logged;
    const Time ended =
        std::chrono::system_clock::now() - std::chrono::seconds(c.trial == Trial::ended_long_ago ? 60 : 0);
    logged.add_pod(0, c.trial != Trial::runs, nullptr, format_time(ended));
    logged.logs[0] = "mlk step=7 accuracy=0.9";
    logged.failures = 2;
    logged.code = c.code;
    const sweeps::Trial trial = logged.read(Harvest::all).trials.at(0);
    CHECK(logged.asked.size() == c.asked);
    CHECK(trial.objective.has_value() == (c.asked == 3));
    CHECK(trial.failure == "");
  }
}

TEST_CASE("a running trial has not failed if it has not reported the objective yet") {
  Logged logged;
  logged.add_pod(0, false);
  logged.logs[0] = "accuracy is 0.1";
  const Trial trial = logged.read().trials.at(0);
  CHECK(trial.state == TrialState::running);
  CHECK(trial.failure == "");
  CHECK(trial.metrics == json::object());  // the log was read
}

TEST_CASE("harvest_running() reads the logs of running trials, and keeps earlier reports") {
  Logged logged;
  logged.add_pod(0, false);
  logged.add_pod(1, true);
  logged.logs[0] = "mlk step=3 accuracy=0.5";
  std::map<int, Trial> told;
  const auto look = [&] {
    logged.asked.clear();
    const SweepObjects objects = fetch_sweep(logged.client, "default", logged.sweep, WithPods::yes);
    const SweepStatus status = observe_sweep(objects, std::chrono::system_clock::now());
    harvest_running(logged.client, "default", status, told);
  };
  look();
  REQUIRE(told.size() == 1);
  CHECK(told.at(0).objective == 0.5);
  CHECK(logged.asked.size() == 1);
  logged.logs[0] = "mlk step=5 accuracy=0.75";  // the trial was paused and resumed, so it has another pod
  look();
  CHECK(told.at(0).objective == 0.75);
  CHECK(told.at(0).curve == std::vector<std::pair<std::int64_t, double>>{{3, 0.5}, {5, 0.75}});
  logged.logs[0] = "";
  look();
  CHECK(told.at(0).curve.size() == 2);
}

TEST_CASE("mlk reads the warnings of a large sweep only if no trial runs, and some trials have not ended") {
  for (const int trials : {1000, 1001}) {
    INFO(trials);
    Logged logged("", "1.." + std::to_string(trials));
    std::vector<std::string> pods, events;
    std::mutex mutex;
    logged.sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
      const std::lock_guard lock(mutex);
      const auto selector = asked.query.find("fieldSelector");
      const std::string text = selector == asked.query.end() ? "" : selector->second;
      if (asked.path.ends_with("/pods")) pods.push_back(text);
      if (asked.path.ends_with("/events")) events.push_back(text);
      return std::nullopt;
    });
    read_sweep(logged.client, "default", logged.sweep, Harvest::running);
    CHECK(pods.front() == (trials == 1000 ? "" : "status.phase=Running"));
    CHECK(events.size() == 1);
    logged.add_pod(0, false);
    pods.clear();
    events.clear();
    read_sweep(logged.client, "default", logged.sweep, Harvest::running);
    CHECK(events.size() == (trials == 1000 ? 1 : 0));
    CHECK(pods.size() == 1);  // a trial runs, so no explanation is needed
  }
}
