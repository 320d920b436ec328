// Tests trials that exit with 0 and still have failed, because these trials never reported the objective.
#include <atomic>
#include <string>

#include <doctest/doctest.h>

#include "sweeps/objects/ledger_store.h"
#include "sweeps/read/fetch.h"
#include "sweeps/results/rows.h"
#include "sweeps/space/ledger.h"
#include "tests/unit/sweeps/played_controllers.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/read/verdicts");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::Sweeper;

namespace {

constexpr char judged_experiment[] =
    "name: x\nmode: allreduce\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n"
    "sweep: {parallel: 2, objective: maximize accuracy, max_failures: 1}\n";

// A sweep whose trials all exit with 0 and leave only a log.
struct Telling {
  Sweeper sweeper{judged_experiment};
  std::function<std::string(double lr)> log;
  int status_of_logs = 200;
  std::string ended = "2026-11-23T10:00:05Z";

  explicit Telling(std::function<std::string(double lr)> told) : log(std::move(told)) {}

  SweepStatus drive(const std::vector<std::string>& words) {
    test::PlayedControllers controllers(sweeper.cluster, [](double) { return 0; }, log, ended);
    sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
      std::optional<local::Answer> answer = controllers.answer(asked);
      if (answer && status_of_logs != 200) return test::refusal(status_of_logs, "Refused", "no log");
      return answer;
    });
    const SweepStatus status = sweeper.drive_to_end(words);
    sweeper.cluster.before({});
    return status;
  }
  std::vector<Trial> ledger(const std::string& sweep) {
    kube::Client client(sweeper.cluster.config());
    return read_ledger(sweep, fetch_sweep(client, "default", sweep, WithPods::no).config_maps);
  }
};

void check_that_all_failed(Telling& telling, const std::string& reason) {
  const SweepStatus status = telling.drive({"lr=0.1,0.2"});
  CHECK(status.phase == Phase::failed);
  CHECK(exit_code(status) == ExitCode::run_failed);
  CHECK(status.counts.failed == 2);
  CHECK(status.counts.succeeded == 0);
  CHECK(status.why == "2 of 2 trials failed; the first, 0: " + reason);
  CHECK(best_of(status) == nullptr);
  for (const Trial& trial : status.trials) {
    CHECK(trial.state == TrialState::failed);
    CHECK(trial.failure == reason);
  }
  // The ledger keeps the verdict for readers after the logs are gone.
  const std::vector<Trial> ledger = telling.ledger(status.sweep);
  REQUIRE(ledger.size() == 2);
  CHECK(ledger[0].failure == reason);
  kube::Client client(telling.sweeper.cluster.config());
  const SweepStatus later = read_sweep(client, "default", status.sweep, Harvest::all);
  CHECK(later.phase == Phase::failed);
  CHECK(later.counts.failed == 2);
  CHECK(later.trials[1].failure == reason);
  // Lists of runs, from which --where selects, also show the verdict.
  std::vector<RunStatus> rows = list_runs_and_sweeps(client, "default", std::chrono::system_clock::now(), {});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].phase == Phase::failed);
  CHECK(rows[0].why == status.why);
  CHECK(rows[0].steps == 2);
  CHECK(rows[0].result["step"] == 2);
}

}  // namespace

TEST_CASE("a driven sweep and all its trials fail if its program never reports the objective") {
  Telling telling([](double) { return "hello\naccuracy is good\nmlk step=3 loss=0.5"; });
  check_that_all_failed(telling, "never reported accuracy");
}

TEST_CASE("a driven sweep fails if no trial has a finite number as the last value of its objective") {
  Telling telling([](double) { return "mlk step=1 accuracy=0.5\nmlk step=2 accuracy=nan"; });
  check_that_all_failed(telling, "reported no finite accuracy");
}

TEST_CASE("before a verdict, mlk reads the log of a trial again if the trial has just ended") {
  for (const bool just_now : {true, false}) {
    INFO(just_now);
    std::atomic<int> readings{0};
    Telling telling([&](double) -> std::string {
      return ++readings < 3 ? "epoch 1"
                            : "epoch 1\nmlk step=7 accuracy=0.9";  // the rest of the log comes later
    });
    if (just_now) telling.ended = format_time(std::chrono::system_clock::now() + std::chrono::seconds(2));
    const SweepStatus status = telling.drive({"lr=0.1"});
    CHECK(status.phase == (just_now ? Phase::succeeded : Phase::failed));
    CHECK(status.trials.at(0).objective.value_or(0) == (just_now ? 0.9 : 0.0));
    CHECK(status.trials.at(0).failure == (just_now ? "" : "never reported accuracy"));
  }
}

TEST_CASE("a sweep succeeds if max_failures allows the trials that never report the objective") {
  Telling telling([](double lr) { return lr < 0.15 ? "silence" : "mlk step=7 accuracy=0.9"; });
  const SweepStatus status = telling.drive({"lr=0.1,0.2,0.3"});
  CHECK(status.phase == Phase::succeeded);
  CHECK(exit_code(status) == ExitCode::ok);
  CHECK(status.counts.succeeded == 2);
  CHECK(status.counts.failed == 1);
  CHECK(status.trials[0].failure == "never reported accuracy");
  REQUIRE(best_of(status) != nullptr);
  CHECK(best_of(status)->objective == 0.9);
  CHECK(best_of(status)->number == 1);
}

TEST_CASE("a trial gets no verdict if mlk cannot read its log, or can read only the end of the log") {
  std::string log;
  for (int i = 0; i < 1000; ++i) log += "line\n";
  for (const int code : {200, 404, 500}) {
    INFO(code);
    Telling telling([&](double) { return code == 200 ? log : "silence"; });
    telling.status_of_logs = code;
    const SweepStatus status = telling.drive({"lr=0.1,0.2"});
    CHECK(status.phase == Phase::succeeded);
    CHECK(status.counts.succeeded == 2);
    CHECK(status.trials[0].failure.empty());
  }
}

TEST_CASE("a verdict on one try of a trial does not apply to the next try") {
  Telling telling([](double lr) { return lr < 0.15 ? "silence" : "mlk step=7 accuracy=0.9"; });
  const SweepStatus first = telling.drive({"lr=0.1,0.2"});
  REQUIRE(first.counts.failed == 1);
  telling.log = [](double) { return "mlk step=8 accuracy=0.95"; };
  telling.sweeper.retry_failed = true;
  const SweepStatus second = telling.drive({"lr=0.1,0.2"});
  CHECK(second.phase == Phase::succeeded);
  CHECK(second.counts.succeeded == 2);
  CHECK(second.trials[0].tries == 2);
  CHECK(second.trials[0].failure.empty());
  CHECK(second.trials[0].objective == 0.95);
}

TEST_CASE("a newer try of a trial gets its own verdict, or none if its log cannot be read") {
  for (const bool readable : {false, true}) {
    INFO(readable);
    Telling telling(
        [](double lr) { return lr < 0.15 ? "mlk step=1 accuracy=inf" : "mlk step=7 accuracy=0.9"; });
    REQUIRE(telling.drive({"lr=0.1,0.2"}).trials[0].failure == "reported no finite accuracy");
    telling.log = [](double) { return "silence"; };
    telling.status_of_logs = readable ? 200 : 404;
    telling.sweeper.retry_failed = true;
    const SweepStatus second = telling.drive({"lr=0.1,0.2"});
    CHECK(second.trials[0].tries == 2);
    CHECK(second.trials[0].state == (readable ? TrialState::failed : TrialState::succeeded));
    CHECK(second.trials[0].failure == (readable ? "never reported accuracy" : ""));
    CHECK(second.counts.failed == (readable ? 1 : 0));
    CHECK(second.phase == Phase::succeeded);
  }
}

TEST_CASE("mlk reads the log of an ended trial once, after the server has listed the pod") {
  Telling telling([](double) { return "mlk step=7 accuracy=0.9"; });
  const std::string sweep = telling.drive({"lr=0.1"}).sweep;
  kube::Client client(telling.sweeper.cluster.config());
  const std::string name_space = "default";
  std::atomic<int> logs{0};
  telling.sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    if (!asked.path.ends_with("/log")) return std::nullopt;
    ++logs;
    local::Answer answer;
    answer.status = 200;
    answer.body = "2026-11-23T10:00:01.0Z mlk step=7 accuracy=0.9\n";
    return answer;
  });
  std::map<int, Trial> told;
  const auto look = [&](WithPods with_pods) {
    SweepObjects objects = fetch_sweep(client, name_space, sweep, with_pods);
    std::erase_if(objects.config_maps, [](const json& map) {  // the ledger written before
      return map["metadata"]["name"].get<std::string>().find("-ledger-") != std::string::npos;
    });
    SweepStatus status = observe_sweep(objects, std::chrono::system_clock::now());
    harvest_ended(client, name_space, status, told);
    return status.trials.at(0).objective;
  };
  CHECK_FALSE(look(WithPods::no).has_value());
  CHECK(logs == 0);
  CHECK(look(WithPods::yes) == 0.9);
  CHECK(look(WithPods::yes) == 0.9);
  CHECK(logs == 1);
}

TEST_CASE("a trial whose metric is not a finite number has no objective") {
  SweepStatus status;
  Trial trial;
  trial.objective = 1;
  trial.metrics = {{"loss", "inf"}};
  status.trials.push_back(trial);
  Objective loss;
  loss.metric = "loss";
  use_objective(status, loss);
  CHECK_FALSE(status.trials[0].objective.has_value());
  CHECK(status.record.objective->metric == "loss");
}

TEST_CASE("apply_verdicts() changes only the phase `succeeded`, and changes it to `failed`") {
  SweepStatus status;
  status.phase = Phase::succeeded;
  Trial trial;
  trial.state = TrialState::failed;
  trial.failure = "exit code 1";
  status.trials.push_back(trial);
  status.counts.failed = 1;
  apply_verdicts(status);
  CHECK(status.phase == Phase::succeeded);  // the phase from the driver
  status.trials[0].failure = diverged("loss");
  status.phase = Phase::stopped;
  apply_verdicts(status);
  CHECK(status.phase == Phase::stopped);
  status.phase = Phase::succeeded;
  apply_verdicts(status);
  CHECK(status.phase == Phase::failed);
  CHECK(status.counts.failed == 1);
}
