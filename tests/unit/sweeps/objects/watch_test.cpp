#include "sweeps/objects/watch.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "tests/unit/sweeps/sweeper.h"

TEST_SUITE_BEGIN("sweeps/objects/watch");

using namespace mlk;
using namespace mlk::sweeps;
using test::Sweeper;

namespace {

constexpr char watched_experiment[] =
    "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1, optimizer: {lr: 0.5}}\n";

// Waits until `found` returns true; fails after ten seconds.
void watch_until(SweepWatch& watch, const std::function<bool(const SweepObjects&)>& found) {
  for (int i = 0; i < 100; ++i) {
    watch.wait(std::chrono::milliseconds(100));
    const std::optional<SweepObjects> objects = watch.objects();
    watch.observed();
    if (objects && found(*objects)) return;
  }
  FAIL("it was not seen");
}

}  // namespace

TEST_CASE("a watch has all objects of its sweep, and throws if the sweep was deleted") {
  Sweeper sweeper(watched_experiment);
  const std::string sweep = sweeper.start({"lr=0.1,0.2"}).sweep;
  sweeper.start({"steps=1,2"});  // another sweep
  kube::Client client(sweeper.cluster.config());
  SweepWatch watch(client, "default", sweep);
  watch_until(watch, [&](const SweepObjects& objects) {
    CHECK(kube::name_of(objects.owner) == sweep);
    CHECK(objects.jobs.size() == 1);
    CHECK(batches_of(objects).size() == 1);
    return objects.pods.empty();
  });
  CHECK(watch.trouble() == "");
  nlohmann::json pod = test::pod_of(sweep, "Running", "trial", 0);
  pod["metadata"]["labels"]["mlk.dev/sweep"] = sweep;
  sweeper.cluster.store.create("pods", pod);
  watch_until(watch, [](const SweepObjects& objects) { return objects.pods.size() == 1; });
  sweeper.cluster.ask("DELETE", test::config_maps_path + "/" + sweep);
  CHECK_THROWS_WITH_AS(watch_until(watch, [](const SweepObjects&) { return false; }),
                       ("sweep " + sweep + " was deleted").c_str(), Error);
}

TEST_CASE("a watch throws if the server forbids it, and has no objects while the server fails") {
  for (const int code : {401, 403, 404}) {
    INFO(code);
    Sweeper sweeper(watched_experiment);
    const std::string sweep = sweeper.start({"lr=0.1,0.2"}).sweep;
    std::atomic<int> refusals{0};
    sweeper.cluster.before([&](const local::Request& asked) -> std::optional<local::Answer> {
      if (!asked.path.ends_with("/pods")) return std::nullopt;
      ++refusals;
      return test::refusal(code, "Refused", "no");
    });
    kube::Client client(sweeper.cluster.config());
    SweepWatch watch(client, "default", sweep);
    if (code == 404) {
      for (int i = 0; i < 500 && refusals == 0; ++i) watch.wait(std::chrono::milliseconds(20));
      REQUIRE(refusals > 0);
      CHECK_FALSE(watch.objects().has_value());
    } else {
      CHECK_THROWS_AS(watch_until(watch, [](const SweepObjects&) { return true; }), kube::ApiError);
    }
  }
}
