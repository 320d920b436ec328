// Tests the state of a driven sweep, from objects as the API server gives them.
#include <string>

#include <doctest/doctest.h>

#include "cli/run/facts/labels.h"
#include "sweeps/space/ledger.h"
#include "sweeps/trials/observe.h"
#include "sweeps/trials/trial_runs.h"
#include "tests/unit/sweeps/driven_sweep.h"

TEST_SUITE_BEGIN("sweeps/trials/observe_driven");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::DrivenSweep;

TEST_CASE("a driven sweep needs a driver if trials wait and no started trial runs") {
  DrivenSweep sweep;
  CHECK(needs_driver(sweep.status()));
  sweep.add_driver();
  CHECK_FALSE(needs_driver(sweep.status()));  // the driver is being started
  sweep.objects.drivers.clear();
  sweep.start(0);
  CHECK_FALSE(needs_driver(sweep.status()));  // the started trial needs no driver
  sweep.objects.pods.clear();
  sweep.end(0, true);
  CHECK(needs_driver(sweep.status()));
  DrivenSweep stopped = sweep;
  stopped.mark(annotations::stopped);
  CHECK_FALSE(needs_driver(stopped.status()));
  sweep.mark(annotations::phase, "Succeeded");
  CHECK_FALSE(needs_driver(sweep.status()));
  DrivenSweep running;
  running.start(0, "Running");
  CHECK_FALSE(needs_driver(running.status()));
}

TEST_CASE("a driven sweep still needs a driver when all of its trials have ended") {
  DrivenSweep sweep;
  for (const int number : {0, 1}) {
    sweep.start(number);
    sweep.end(number, true);
  }
  CHECK(sweep.status().counts.succeeded == 2);
  CHECK(sweep.status().phase == Phase::running);
  CHECK(needs_driver(sweep.status()));
  SweepStatus by_cluster = sweep.status();
  by_cluster.record.driven = false;
  CHECK_FALSE(needs_driver(by_cluster));
  SweepStatus with_jobs = sweep.status();
  with_jobs.jobs_go_on = true;
  CHECK_FALSE(needs_driver(with_jobs));
}

TEST_CASE("the status says what a driven sweep waits for: its command, its driver or a node") {
  DrivenSweep sweep;
  CHECK(sweep.status().why == "no trial runs; its mlk sweep command starts them when it is typed again");
  sweep.add_driver();
  CHECK(sweep.status().why == "no trial runs: its driver is being started");
  sweep.start(1, "Pending");
  sweep.objects.pods.back()["spec"].erase("nodeName");
  sweep.objects.pods.back()["status"] = {{"phase", "Pending"},
                                         {"conditions",
                                          {{{"type", "PodScheduled"},
                                            {"status", "False"},
                                            {"reason", "Unschedulable"},
                                            {"message", "0/3 nodes are available: 3 Insufficient cpu."}}}}};
  const std::string why = sweep.status().why;
  INFO(why);
  CHECK(why.starts_with("trial 1: "));
  CHECK(why.find("cpu") != std::string::npos);
  sweep.start(0, "Running");
  CHECK(sweep.status().why == "");  // a trial runs
}

TEST_CASE("a drained sweep is stopped when all started trials have ended") {
  const std::string why =
      "no more trials are started; the sweep is stopped when its running trials have ended";
  DrivenSweep sweep;
  sweep.mark(annotations::draining);
  CHECK(sweep.status().draining);
  CHECK(sweep.status().phase == Phase::stopped);  // no trial was started
  CHECK(exit_code(sweep.status()) == ExitCode::stopped);
  CHECK_FALSE(needs_driver(sweep.status()));
  sweep.start(0);  // the run has no pod yet
  CHECK(sweep.status().phase == Phase::scheduling);
  CHECK(sweep.status().why == why);
  DrivenSweep running;
  running.mark(annotations::draining);
  running.start(0, "Running");
  CHECK(running.status().phase == Phase::running);
  CHECK(running.status().why == why);
  running.end(0, true);
  CHECK(running.status().phase == Phase::stopped);
  CHECK(running.status().why == "");
  running.mark(annotations::phase, "Succeeded");  // the driver knew no more trials
  CHECK(running.status().phase == Phase::succeeded);
}

TEST_CASE("use_objective() gives each trial an objective: the last value of the metric") {
  SweepStatus status;
  status.record.objective = Objective{};
  for (int i = 0; i < 3; ++i) {
    Trial trial;
    trial.number = i;
    trial.state = TrialState::succeeded;
    trial.objective = i;
    trial.curve = {{1, 0.5}};
    trial.metrics = i == 2 ? json{{"loss", 1}} : json{{"loss", 1}, {"f1", 0.5 + i}, {"note", "good"}};
    status.trials.push_back(trial);
  }
  Objective by_f1;
  by_f1.goal = Objective::Goal::maximize;
  by_f1.metric = "f1";
  use_objective(status, by_f1);
  CHECK(status.trials[0].objective == 0.5);
  CHECK(status.trials[1].objective == 1.5);
  CHECK_FALSE(status.trials[2].objective.has_value());  // the trial has not reported f1
  CHECK(status.trials[0].curve.empty());
  REQUIRE(best_of(status) != nullptr);
  CHECK(best_of(status)->number == 1);
  Objective by_words;
  by_words.metric = "note";
  use_objective(status, by_words);
  CHECK_FALSE(status.trials[0].objective.has_value());
  CHECK(best_of(status) == nullptr);
}

TEST_CASE("a trial that exited with 0 counts as failed if the ledger has a verdict on this try") {
  const auto status_with = [](int tries_of_verdict, int attempts) {
    DrivenSweep sweep;
    Trial known;
    known.number = 0;
    known.point = {{"lr", 0}};
    known.state = TrialState::failed;
    known.tries = tries_of_verdict;
    known.failure = never_reported("accuracy");
    sweep.objects.config_maps.push_back(
        {{"metadata", {{"name", "s-abcde-ledger-0"}}}, {"data", {{"trials.jsonl", to_line(known)}}}});
    std::string& points = sweep.objects.config_maps[0]["data"]["points.jsonl"].get_ref<std::string&>();
    for (int i = 1; i < attempts; ++i)
      points += R"({"trial": 0, "parameters": {"lr": 0}})"
                "\n";
    const std::string run = trial_run("s-abcde", hash_of(known.point), attempts);
    sweep.start(0);
    for (json& map : sweep.objects.config_maps) {
      if (map["metadata"]["name"] == DrivenSweep::run_name(0)) {
        map["metadata"]["name"] = run;
        map["metadata"]["labels"]["mlk.dev/run"] = run;
      }
    }
    sweep.end(0, true);
    json& job = sweep.job(0);
    job["metadata"]["name"] = run + "-worker";
    job["metadata"]["labels"]["mlk.dev/run"] = run;
    return sweep.status();
  };
  const SweepStatus same = status_with(1, 1);
  CHECK(same.trials[0].state == TrialState::failed);
  CHECK(same.trials[0].failure == "never reported accuracy");
  CHECK(same.counts.failed == 1);
  const SweepStatus newer = status_with(1, 2);
  CHECK(newer.trials[0].state == TrialState::succeeded);
  CHECK(newer.trials[0].tries == 2);
  CHECK(newer.trials[0].failure == "");
}

TEST_CASE("a sweep that is marked as succeeded counts as failed if the ledger has verdicts on all trials") {
  DrivenSweep sweep;
  std::string lines;
  for (const int number : {0, 1}) {
    sweep.start(number);
    sweep.end(number, true);
    Trial judged;
    judged.number = number;
    judged.point = {{"lr", number}};
    judged.state = TrialState::failed;
    judged.tries = 1;
    judged.failure = never_reported("accuracy");
    lines += to_line(judged) + "\n";
  }
  sweep.mark(annotations::phase, "Succeeded");
  sweep.objects.config_maps.push_back(
      {{"metadata", {{"name", "s-abcde-ledger-0"}}}, {"data", {{"trials.jsonl", lines}}}});
  const SweepStatus status = sweep.status();
  CHECK(status.counts.failed == 2);
  CHECK(status.phase == Phase::failed);
  CHECK(exit_code(status) == ExitCode::run_failed);
  CHECK(status.why == "2 of 2 trials failed; the first, 0: never reported accuracy");
}

TEST_CASE("verdicts make a sweep fail if they leave no successful trial, or too many failed ones") {
  const auto judged = [](int succeeded, int verdicts, int most) {
    SweepStatus status;
    status.phase = Phase::succeeded;
    status.record.max_failures = most;
    for (int i = 0; i < succeeded + verdicts; ++i) {
      Trial trial;
      trial.number = i;
      trial.state = TrialState::succeeded;
      if (i < succeeded)
        trial.objective = 1;
      else
        trial.failure = diverged("loss");
      status.trials.push_back(trial);
    }
    status.counts.succeeded = succeeded + verdicts;
    apply_verdicts(status);
    CHECK(status.counts.succeeded == succeeded);
    CHECK(status.counts.failed == verdicts);
    return status;
  };
  CHECK(judged(2, 0, 0).phase == Phase::succeeded);
  CHECK(judged(2, 1, 1).phase == Phase::succeeded);
  CHECK(judged(2, 2, 1).phase == Phase::failed);
  CHECK(judged(2, 2, 1).why == "2 of 4 trials failed; the first, 2: reported no finite loss");
  CHECK(judged(0, 1, 5).phase == Phase::failed);
}

namespace {

// Writes the start of the last added pod as the kubelet does.
json& last_pod_started(DrivenSweep& sweep, const std::string& time) {
  json& pod = sweep.objects.pods.back();
  pod["metadata"]["creationTimestamp"] = time;
  pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = time;
  return pod;
}

json& owner_of_run(DrivenSweep& sweep, int number) {
  for (json& map : sweep.objects.config_maps) {
    if (map["metadata"]["name"] == DrivenSweep::run_name(number)) return map;
  }
  throw std::runtime_error("it has no run");
}

}  // namespace

TEST_CASE("the marks on a run decide the state of its trial if the trial has not succeeded") {
  const std::string time = "2026-11-23T10:00:00Z";
  struct Case {
    json marks;
    bool ended_well;
    TrialState state;
    std::string failure;
    std::int64_t until;
  };
  using S = TrialState;
  for (const Case& c : std::initializer_list<Case>{
           {json::object(), false, S::running, "", 0},
           {{{annotations::until, "20"}}, false, S::running, "", 20},
           {{{annotations::stopped, time}}, false, S::stopped, "", 0},
           {{{annotations::stopped, time}, {annotations::paused, "10"}, {annotations::until, "10"}},
            false,
            S::waiting,
            "",
            10},
           {{{annotations::paused, "10"}}, false, S::running, "", 0},  // the trial still trains
           {{{annotations::cannot_start, "no\nimage\x1b"}}, false, S::failed, "no\nimage?", 0},
           {{{annotations::cannot_start, "no image"}}, true, S::succeeded, "", 0},
           {{{annotations::stopped_early, "by asha\x1b"}}, false, S::stopped, "by asha?", 0},
           {{{annotations::stopped_early, "by asha"}}, true, S::succeeded, "", 0}}) {
    INFO(c.marks.dump(), c.ended_well);
    DrivenSweep sweep;
    sweep.start(0, "Running");
    if (c.ended_well) sweep.end(0, true);
    owner_of_run(sweep, 0)["metadata"]["annotations"].update(c.marks);
    if (c.marks.contains(annotations::stopped)) {
      sweep.job(0)["spec"]["suspend"] = true;
      sweep.objects.pods.clear();
    }
    const SweepStatus status = sweep.status();
    REQUIRE(status.trials.size() == 2);
    CHECK(status.trials[0].state == c.state);
    CHECK(status.trials[0].failure == c.failure);
    CHECK(status.trials[0].until == c.until);
  }
}

TEST_CASE("the status of a sweep has the reason of each waiting trial") {
  DrivenSweep sweep;
  sweep.start(0, "Running");
  CHECK(sweep.status().waits_for.empty());
  sweep.start(1, "Pending");
  sweep.objects.pods.back()["status"] = {
      {"phase", "Pending"},
      {"conditions", {{{"type", "PodScheduled"}, {"status", "True"}}}},
      {"containerStatuses",
       {{{"name", "main"},
         {"state", {{"waiting", {{"reason", "InvalidImageName"}, {"message", "no such name"}}}}}}}}};
  SweepStatus status = sweep.status();
  REQUIRE(status.waits_for.size() == 1);
  CHECK(status.waits_for.at(1).find("invalid image name") != std::string::npos);
  REQUIRE(status.cannot_start_of.size() == 1);
  CHECK(status.cannot_start_of.at(1) == status.waits_for.at(1));
  sweep.objects.pods.back()["status"]["containerStatuses"] = json::array();
  status = sweep.status();
  CHECK(status.waits_for.count(1) == 1);
  CHECK(status.cannot_start_of.empty());
}

TEST_CASE("the status of a waiting sweep quotes the first waiting trial that has a reason") {
  DrivenSweep sweep;
  sweep.start(0, "Pending");
  sweep.objects.pods.back()["status"] = {{"phase", "Pending"},
                                         {"conditions", {{{"type", "PodScheduled"}, {"status", "True"}}}}};
  REQUIRE(sweep.status().waits_for.at(0) == "");
  CHECK(sweep.status().why == "");
  sweep.start(1);
  CHECK(sweep.status().why == "trial 1: the cluster has not made its pods yet");
  sweep.add_driver();
  CHECK(sweep.status().why == "trial 1: the cluster has not made its pods yet");
  DrivenSweep ended;
  for (const int number : {0, 1}) {
    ended.start(number);
    ended.end(number, true);
  }
  CHECK(ended.status().why == "");  // no trial waits
}

TEST_CASE("a trial that is not started yet counts as waiting while its sweep has not ended") {
  DrivenSweep sweep;
  sweep.objects.owner["data"]["sweep"] = R"({"trials": 5, "max_failures": 0, "driven": true})";
  CHECK(sweep.status().counts.waiting == 5);
  sweep.start(0, "Running");
  CHECK(sweep.status().counts.waiting == 4);
  CHECK(sweep.status().counts.running == 1);
  sweep.mark(annotations::phase, "Failed");
  CHECK(sweep.status().counts.waiting == 1);
  sweep.objects.owner["data"]["sweep"] = R"({"trials": 1, "max_failures": 0, "driven": true})";
  CHECK(sweep.status().counts.all() == 2);
  // If the cluster runs the sweep, only the trials of the Jobs count.
  sweep.objects.owner["data"]["sweep"] = R"({"trials": 5, "max_failures": 0})";
  CHECK(sweep.status().counts.all() == 2);
}

TEST_CASE("the log of a trial is read from the newest pod of the lowest worker rank") {
  DrivenSweep sweep;
  sweep.start(0);
  sweep.job(0)["spec"]["completions"] = 2;
  const std::string run = DrivenSweep::run_name(0);
  const auto add = [&](const std::string& role, int rank, const std::string& name, const std::string& time,
                       bool started = true) {
    json pod = test::pod_of(run, started ? "Running" : "Pending", role, rank);
    pod["metadata"]["name"] = name;
    pod["metadata"]["uid"] = name;
    pod["metadata"]["labels"]["mlk.dev/sweep"] = "s-abcde";
    pod["status"]["containerStatuses"] = json::array();
    if (started)
      pod["status"]["containerStatuses"] = {
          {{"name", "main"}, {"state", {{"running", {{"startedAt", time}}}}}}};
    sweep.objects.pods.push_back(pod);
    if (started) last_pod_started(sweep, time);
  };
  add("server", 0, "server", "2026-11-23T10:00:09Z");
  CHECK(sweep.status().newest_pods.empty());
  add("worker", 1, "second", "2026-11-23T10:00:00Z");
  CHECK(sweep.status().newest_pods.at(0) == "second");
  add("worker", 0, "newer", "2026-11-23T10:00:05Z");
  add("worker", 0, "older", "2026-11-23T10:00:02Z");
  CHECK(sweep.status().newest_pods.at(0) == "newer");
  CHECK(sweep.status().program_of.at("newer") == "main");
  add("worker", 0, "pending", "2026-11-23T10:00:08Z", false);
  CHECK(sweep.status().newest_pods.at(0) == "newer");
}

TEST_CASE("a driven sweep starts with its earliest trial, and ends with its latest trial") {
  DrivenSweep sweep;
  Trial first, second;
  first.point = {{"lr", 0}};
  second.point = {{"lr", 1}};
  second.number = 1;
  first.state = second.state = TrialState::succeeded;
  first.tries = second.tries = 1;
  first.started = parse_time("2026-11-23T10:00:05Z");
  second.started = parse_time("2026-11-23T10:00:02Z");
  first.ended = parse_time("2026-11-23T10:00:09Z");
  second.ended = parse_time("2026-11-23T10:00:07Z");
  sweep.objects.config_maps.push_back(
      {{"metadata", {{"name", "s-abcde-ledger-0"}}},
       {"data", {{"trials.jsonl", to_line(first) + "\n" + to_line(second) + "\n"}}}});
  SweepStatus status = sweep.status();
  CHECK(status.started == second.started);
  CHECK_FALSE(status.ended.has_value());
  sweep.mark(annotations::phase, "Succeeded");
  status = sweep.status();
  CHECK(status.started == second.started);
  CHECK(status.ended == first.ended);
}

TEST_CASE("mlk does not read the run of a trial again if the ledger has the trial's final state") {
  DrivenSweep sweep;
  sweep.start(0);
  sweep.end(0, true);
  const std::string run = DrivenSweep::run_name(0);
  const auto look = [&](const std::set<std::string>& settled) {
    SweepObjects rest = sweep.objects;
    const std::map<std::string, RunObjects> runs = extract_runs(rest);
    return observe_sweep(rest, runs, settled, std::chrono::system_clock::now());
  };
  CHECK(look({run}).runs.count(run) == 1);  // the trial is not in the ledger
  Trial known;
  known.point = {{"lr", 0}};
  known.state = TrialState::running;
  known.tries = 1;
  const auto write_down = [&] {
    std::erase_if(sweep.objects.config_maps,
                  [](const json& map) { return map["metadata"]["name"] == "s-abcde-ledger-0"; });
    sweep.objects.config_maps.push_back(
        {{"metadata", {{"name", "s-abcde-ledger-0"}}}, {"data", {{"trials.jsonl", to_line(known)}}}});
  };
  write_down();
  CHECK(look({run}).runs.count(run) == 1);
  known.state = TrialState::succeeded;
  write_down();
  CHECK(look({run}).runs.empty());
  CHECK(look({run}).trials[0].state == TrialState::succeeded);
  CHECK(look({"another"}).runs.count(run) == 1);
}

TEST_CASE("a drained sweep is not stopped while one of its Jobs still runs") {
  DrivenSweep sweep;
  sweep.mark(annotations::draining);
  sweep.objects.config_maps.push_back(
      {{"metadata", {{"name", "s-abcde-trials-1"}}},
       {"immutable", true},
       {"data", {{"points.jsonl", R"({"trial": 2, "parameters": {"lr": 2}})"}}}});
  sweep.objects.jobs.push_back({{"metadata",
                                 {{"name", "s-abcde-trials-1"},
                                  {"uid", "j"},
                                  {"labels", {{"mlk.dev/role", "trial"}, {"mlk.dev/run", "s-abcde"}}}}},
                                {"spec", {{"completions", 1}, {"parallelism", 1}}},
                                {"status", json::object()}});
  CHECK(sweep.status().phase == Phase::scheduling);
  CHECK(sweep.status().newest_runs.count(2) == 0);  // the trial is an index of the Job
  CHECK(sweep.status().newest_runs.at(1) == DrivenSweep::run_name(1));
}
