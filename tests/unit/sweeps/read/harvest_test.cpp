#include "sweeps/read/harvest.h"

#include <atomic>

#include <doctest/doctest.h>

#include "sweeps/objects/ledger_store.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/read/harvest");

using namespace mlk;
using namespace mlk::sweeps;

TEST_CASE("the result of a trial is stored when the trial ends") {
  test::Sweeper sweeper(
      "name: x\nmode: single\nimage: i\nrun: echo ${sweep.lr}\nsweep: {objective: maximize accuracy}\n");
  const std::string sweep = sweeper.start({"lr=1,2"}).sweep;
  kube::Client client(sweeper.cluster.config());
  const std::string name_space = "default";
  Harvester harvester(client, name_space);
  std::atomic<int> writes{0};
  sweeper.cluster.before([&](const local::Request& request) -> std::optional<local::Answer> {
    if (request.method != "GET") ++writes;
    return std::nullopt;
  });
  const auto look = [&] {
    const SweepObjects objects = fetch_sweep(client, name_space, sweep, WithPods::yes);
    SweepStatus status = observe_sweep(objects, std::chrono::system_clock::now());
    harvester.collect(objects, status);
  };
  look();
  CHECK(writes == 0);
  CHECK_FALSE(harvester.is_due());
  sweeper.cluster.ask("PATCH", test::jobs_path + "/" + sweep + "-trials-0/status",
                      {{"status", {{"completedIndexes", "1"}}}}, "application/merge-patch+json");
  look();
  CHECK(writes == 1);
  const std::vector<Trial> kept =
      read_ledger(sweep, fetch_sweep(client, name_space, sweep, WithPods::no).config_maps);
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].number == 1);
  CHECK(kept[0].state == TrialState::succeeded);
  look();
  CHECK(writes == 1);
  CHECK_FALSE(harvester.is_due());
}
