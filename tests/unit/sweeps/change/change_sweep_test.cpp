// Tests how sweeps and trials in each state are stopped, drained, resumed and given up.
#include "sweeps/change/change_sweep.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/util/error.h"
#include "sweeps/read/fetch.h"
#include "sweeps/trials/control.h"
#include "sweeps/trials/trial_runs.h"
#include "tests/unit/sweeps/played_controllers.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/change/change_sweep");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::PlayedControllers;
using test::Sweeper;

namespace {

constexpr char changed_experiment[] =
    "name: x\nmode: allreduce\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n"
    "sweep: {parallel: 5, objective: maximize accuracy, max_failures: 9}\n";
const std::vector<int> all_changed{0, 1, 2, 3, 4, 5};

// A sweep without a driver. Trial 0 has succeeded, trial 1 cannot start, trial 2 runs, trial 3 waits for its
// pod, trial 4 was stopped by a user, and trial 5 was stopped early.
struct ChangedSweep {
  Sweeper sweeper{changed_experiment};
  kube::Client client{sweeper.cluster.config()};
  std::string sweep;
  std::vector<std::string> notes;

  ChangedSweep() {
    {
      const PlayedControllers controllers(
          sweeper.cluster, [](double lr) { return lr < 0.15 ? 0 : PlayedControllers::runs_on; });
      sweep = sweeper.drive_until_running({"lr=0.1,0.2,0.3,0.4,0.5,0.6"}, 5);
    }
    fail_trial(client, "default", run(1), "no such image");
    const std::string pod = kube::name_of(test::pod_of(status().newest_runs.at(3), ""));
    sweeper.cluster.ask("DELETE", test::pods_path + "/" + pod, {{"gracePeriodSeconds", 0}});
    stop_trial(client, "default", run(4));
    stop_trial(client, "default", run(5), "stopped early by median at step 5");
  }

  SweepStatus status() {
    return observe_sweep(fetch_sweep(client, "default", sweep, WithPods::yes),
                         std::chrono::system_clock::now());
  }
  RunObjects run(int trial) {
    return runs_of(fetch_sweep(client, "default", sweep, WithPods::yes)).at(status().newest_runs.at(trial));
  }
  std::string trial(int number) const { return sweep + "/" + std::to_string(number); }

  ChangeHooks hooks() {
    return {.note = [this](const std::string& text) { notes.push_back(text); },
            .warn = [](const std::string&) {},
            .interrupted = [] { return false; },
            .command = [](const std::string& words) { return "mlk " + words; }};
  }
  // The notes since the last call.
  std::vector<std::string> told() { return std::exchange(notes, {}); }
};

}  // namespace

TEST_CASE("a trial that was deleted before it had ended is stored as stopped, with the reason") {
  ChangedSweep changed;
  const std::vector<json> owners =
      give_up_trials(changed.client, changed.sweep, all_changed, changed.hooks());
  CHECK(changed.told().empty());
  const SweepStatus status = changed.status();
  REQUIRE(owners.size() == 6);
  for (const int number : all_changed)
    CHECK(kube::name_of(owners[static_cast<std::size_t>(number)]) == status.newest_runs.at(number));
  std::vector<std::string> stored;
  for (const auto& [number, trial] : status.ledger)
    stored.push_back(std::string(to_string(trial.state)) + ": " + trial.failure);
  CHECK(stored == std::vector<std::string>{"Succeeded: ", "Failed: no such image", "Stopped: deleted",
                                           "Stopped: deleted", "Stopped: deleted",
                                           "Stopped: stopped early by median at step 5"});
}

TEST_CASE("trials are stopped and resumed if they have not ended, and a note says what happens to each one") {
  ChangedSweep changed;
  const auto go_on = [&](int number) {
    return "stopped " + changed.trial(number) + "; let it go on with: mlk resume " + changed.trial(number);
  };
  stop_trials(changed.client, changed.sweep, all_changed, changed.hooks());
  CHECK(changed.told() == std::vector<std::string>{changed.trial(0) + " has ended already: Succeeded",
                                                   changed.trial(1) + " has ended already: Failed", go_on(2),
                                                   go_on(3), go_on(4),
                                                   changed.trial(5) + " has ended already: Stopped"});
  CHECK(changed.status().counts.stopped == 4);
  resume_trials(changed.client, changed.sweep, all_changed, changed.hooks());
  CHECK(changed.told() ==
        std::vector<std::string>{
            changed.trial(0) + " is not stopped: Succeeded",
            changed.trial(1) + " is not stopped: Failed, no such image", "resumed " + changed.trial(2),
            "resumed " + changed.trial(3), "resumed " + changed.trial(4),
            changed.trial(5) + " is not stopped: Stopped, stopped early by median at step 5"});
  CHECK(changed.status().counts.stopped == 1);
  CHECK_THROWS_WITH_AS(stop_trials(changed.client, changed.sweep, {6}, changed.hooks()),
                       ("sweep " + changed.sweep + " has no trial 6").c_str(), Error);
}

TEST_CASE("a stopped sweep is not drained, and a resume undoes a drain or a stop") {
  ChangedSweep changed;
  const auto first_note = [&] { return changed.told().at(0); };
  drain_sweep(changed.client, changed.sweep, changed.hooks());
  CHECK(first_note() ==
        "no more trials of " + changed.sweep + " are started; 1 run to their end: mlk wait " + changed.sweep);
  CHECK(changed.status().draining);
  resume_sweep(changed.client, changed.sweep, changed.hooks());
  CHECK(first_note() == "resumed " + changed.sweep);
  CHECK_FALSE(changed.status().draining);
  stop_sweep(changed.client, changed.sweep, changed.hooks());
  CHECK(first_note().starts_with("stopped " + changed.sweep + ": "));
  CHECK(changed.status().phase == Phase::stopped);
  drain_sweep(changed.client, changed.sweep, changed.hooks());
  CHECK(first_note() == "sweep " + changed.sweep + " is stopped already");
  CHECK_FALSE(changed.status().draining);
  resume_sweep(changed.client, changed.sweep, changed.hooks());
  CHECK(first_note() == "resumed " + changed.sweep);
  CHECK(changed.status().phase == Phase::running);
  resume_sweep(changed.client, changed.sweep, changed.hooks());
  CHECK(first_note() == "sweep " + changed.sweep + " is not stopped");
}
