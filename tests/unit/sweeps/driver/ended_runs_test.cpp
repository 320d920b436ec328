#include "sweeps/driver/ended_runs.h"

#include <algorithm>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "cli/kube/objects.h"
#include "cli/run/state/record.h"
#include "cli/util/json_path.h"
#include "sweeps/objects/ledger_store.h"
#include "sweeps/read/fetch.h"
#include "sweeps/trials/trial_runs.h"
#include "tests/unit/sweeps/played_controllers.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/driver/ended_runs");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;
using test::Sweeper;

namespace {

std::string experiment(const std::string& sweep) {
  return "name: x\nmode: allreduce\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n"
         "sweep: {parallel: 1, objective: maximize accuracy" +
         sweep + "}\n";
}

}  // namespace

TEST_CASE("a driver stores the results of its trials even if its watch never reports their pods") {
  Sweeper sweeper(experiment(""));
  const test::PlayedControllers controllers(sweeper.cluster, [](double) { return 0; });
  sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
    const bool watches_pods = asked.path.ends_with("/pods") && asked.flag("watch");
    return watches_pods ? std::optional(local::Answer{}) : std::nullopt;  // the watch ends without an event
  });
  const SweepStatus status = sweeper.drive_to_end({"lr=0.1,0.2,0.3"}, "", [](const SweepStatus& seen) {
    const auto begun = static_cast<std::size_t>(seen.counts.succeeded + seen.counts.running);
    for (std::size_t i = 0; i + 1 < begun; ++i) CHECK(seen.trials[i].objective.has_value());
  });
  CHECK(status.phase == Phase::succeeded);
  kube::Client client(sweeper.cluster.config());
  const SweepObjects objects = fetch_sweep(client, "default", status.sweep, WithPods::no);
  const auto runs = runs_of(objects);
  REQUIRE(runs.size() == 3);
  for (const auto& [name, run] : runs) {
    const std::optional<RunStatus> record = recorded_status(run.owner);
    REQUIRE(record.has_value());
    CHECK(!record->result.is_null());
  }
  for (const Trial& trial : read_ledger(status.sweep, objects.config_maps))
    CHECK(trial.objective.has_value());
}

TEST_CASE("a driver suspends the Job of its last trial if a sidecar keeps the pod of this trial alive") {
  Sweeper sweeper(experiment(""));
  const auto play = [&](const SweepStatus& seen) {
    for (const local::Object& job : sweeper.cluster.store.list("jobs", "default")) {
      const std::string run = text_of(*job, {"metadata", "labels", "mlk.dev/run"});
      json pod = test::pod_of(run, "Running");
      pod["metadata"]["labels"]["mlk.dev/sweep"] = seen.sweep;
      pod["spec"]["containers"] = {{{"name", "main"}}, {{"name", "proxy"}}};
      pod["status"]["containerStatuses"] = {
          {{"name", "main"},
           {"state",
            {{"terminated",
              {{"exitCode", 0},
               {"message", R"({"schema":1,"step":1,"metrics":{"accuracy":0.9},"done":true})"}}}}}},
          {{"name", "proxy"}, {"state", {{"running", json::object()}}}}};
      if (!sweeper.cluster.has("pods", kube::name_of(pod))) sweeper.cluster.store.create("pods", pod);
    }
  };
  const SweepStatus status = sweeper.drive_to_end({"lr=0.1"}, "", play);
  CHECK(status.phase == Phase::succeeded);
  CHECK(status.trials.at(0).objective == doctest::Approx(0.9));
  const std::vector<local::Object> jobs = sweeper.cluster.store.list("jobs", "default");
  REQUIRE(jobs.size() == 1);
  CHECK(at_path(*jobs[0], {"spec", "suspend"}) == true);
}
