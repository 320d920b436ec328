// The book of leases: who works on which samples.
#include "runtime/ps/machines/leases.h"

#include <set>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/ps/machines/leases");

using namespace mlk::rt;

namespace {

Config config_of(bool sync, std::optional<int> staleness = {}, int workers = 3, std::uint64_t steps = 100) {
  Config config;
  config.consistency = {sync, staleness};
  config.workers = {workers, 1};
  config.data.batch = 10;
  config.steps = steps;
  return config;
}

}  // namespace

TEST_CASE("with sync, each slice of a step is granted once, and the next step begins when all are done") {
  Leases leases(config_of(true));
  for (std::uint32_t worker = 0; worker < 3; ++worker) leases.join(worker);
  for (std::uint32_t worker = 0; worker < 3; ++worker) {
    const auto grant = leases.grant(worker);
    REQUIRE(grant);
    CHECK(grant->slice == worker);
    CHECK(grant->position == worker * 10);
  }
  CHECK_FALSE(leases.done(2, 0, 2));
  CHECK_FALSE(leases.grant(2));  // the other workers still compute
  CHECK_FALSE(leases.done(0, 0, 0));
  CHECK(leases.done(1, 0, 1));
  CHECK(leases.step() == 1);
  CHECK(leases.position() == 30);
  CHECK(leases.grant(2)->position == 30);
}

TEST_CASE("with sync, the slices of a lost worker go to the remaining workers") {
  Leases leases(config_of(true));
  for (std::uint32_t worker = 0; worker < 3; ++worker) leases.join(worker);
  for (std::uint32_t worker = 0; worker < 3; ++worker) leases.grant(worker);
  leases.leave(1);
  CHECK_FALSE(leases.done(1, 0, 1));  // a late message of the lost worker does not count
  CHECK_FALSE(leases.done(0, 0, 0));
  CHECK(leases.grant(0)->slice == 1);
  CHECK_FALSE(leases.done(0, 0, 1));
  CHECK(leases.done(2, 0, 2));
}

TEST_CASE("with sync, a single worker gets all slices, and gets each sample once") {
  Leases leases(config_of(true, {}, 4, 5));
  leases.join(7);
  std::set<std::uint64_t> positions;
  while (const auto grant = leases.grant(7)) {
    CHECK(positions.insert(grant->position).second);
    leases.done(7, grant->clock, grant->slice);
  }
  CHECK(positions.size() == 20);
  CHECK(leases.finished());
  CHECK(leases.position() == 200);
}

TEST_CASE("with async, every slice is an update, and at most as many slices are granted as steps remain") {
  Leases leases(config_of(false, {}, 3, 2));
  for (std::uint32_t worker = 0; worker < 3; ++worker) leases.join(worker);
  const auto first = leases.grant(0), second = leases.grant(1);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(second->position == 10);
  CHECK_FALSE(leases.grant(2));
  leases.leave(1);
  CHECK(leases.grant(2)->position == 20);
  CHECK(leases.done(0, first->clock, 0));
  CHECK(leases.done(2, 0, 0));
  CHECK(leases.finished());
  CHECK_FALSE(leases.grant(0));
}

TEST_CASE(
    "a fast worker waits at the bound of staleness until the slowest worker has done a slice or has left") {
  Leases leases(config_of(false, 2));
  leases.join(0);
  leases.join(1);
  const auto run = [&](std::uint32_t worker) {
    const auto grant = leases.grant(worker);
    return grant && leases.done(worker, grant->clock, 0);
  };
  CHECK(run(0));
  CHECK(run(0));
  CHECK(run(0));
  CHECK_FALSE(run(0));
  CHECK(run(1));
  CHECK(run(0));
  CHECK_FALSE(run(0));
  leases.leave(1);
  CHECK(run(0));
  leases.join(1);  // the newcomer starts level with the slowest, so no worker has to wait for it to catch up
  CHECK(run(1));
  CHECK(run(0));
}

TEST_CASE("restart() makes all leases void, and continues at the given step and position") {
  for (const bool sync : {true, false}) {
    CAPTURE(sync);
    Leases leases(config_of(sync));
    leases.join(0);
    leases.grant(0);
    leases.restart(40, 1200);
    CHECK_FALSE(leases.done(0, 0, 0));
    const auto grant = leases.grant(0);
    REQUIRE(grant);
    CHECK(grant->clock == 40);
    CHECK(grant->position == 1200);
  }
}

TEST_CASE(
    "`others_slices` of a grant is the smallest number of slices of any other worker, but at most "
    "`own_slices` + 1") {
  Leases leases(config_of(false, 2));
  leases.join(0);
  CHECK(leases.grant(0)->others_slices == 1);  // a single worker misses nothing
  leases.done(0, 0, 0);
  leases.join(1);  // level with worker 0
  const auto of_slow = leases.grant(1);
  for (std::uint64_t slices = 1; slices <= 3; ++slices) {
    const auto grant = leases.grant(0);
    REQUIRE(grant);
    CHECK(grant->own_slices == slices);
    CHECK(grant->others_slices == 1);
    leases.done(0, grant->clock, 0);
  }
  CHECK_FALSE(leases.grant(0));
  leases.done(1, of_slow->clock, 0);
  CHECK(leases.grant(1)->others_slices == 3);
  CHECK(leases.grant(0)->others_slices == 2);
}

TEST_CASE("if a worker is lost, the samples of its lease count as lost with async, but not with sync") {
  for (const bool sync : {false, true}) {
    Leases leases(config_of(sync));
    for (std::uint32_t worker = 0; worker < 3; ++worker) leases.join(worker);
    leases.grant(0);
    const auto kept = leases.grant(1);
    leases.leave(0);
    leases.leave(2);  // this worker had no lease
    leases.done(1, kept->clock, kept->slice);
    leases.leave(1);
    CHECK(leases.lost_samples() == (sync ? 0 : 10));
  }
}

TEST_CASE("a worker that asks again loses its old slice, and gets the first open slice") {
  Leases leases(config_of(true, {}, 2, 5));
  CHECK_FALSE(leases.grant(0));  // the worker has not joined
  leases.join(0);
  leases.join(1);
  CHECK(leases.grant(0)->slice == 0);
  CHECK(leases.grant(0)->slice == 0);
  CHECK(leases.grant(1)->slice == 1);
  CHECK_FALSE(leases.done(0, 0, 1));  // the slice of another worker
  CHECK_FALSE(leases.done(0, 1, 0));  // a slice of another step
  CHECK(leases.step() == 0);
  CHECK_FALSE(leases.done(0, 0, 0));
  CHECK(leases.done(1, 0, 1));
  CHECK(leases.step() == 1);
  CHECK(leases.position() == 20);
  const auto next = leases.grant(1);
  CHECK(next->clock == 1);
  CHECK(next->slice == 0);
  CHECK(next->position == 20);
  leases.leave(1);
  leases.leave(1);
  leases.join(1);
  CHECK(leases.grant(0)->slice == 0);  // the slice is open again
  CHECK(leases.grant(1)->slice == 1);
}

TEST_CASE("restart() with async makes all leases void and counts no samples as lost") {
  Leases leases(config_of(false, {}, 2, 4));
  leases.join(0);
  leases.join(1);
  leases.grant(0);
  leases.grant(1);
  leases.restart(2, 300);
  CHECK(leases.step() == 2);
  CHECK(leases.position() == 300);
  CHECK(leases.lost_samples() == 0);
  const auto first = leases.grant(0), second = leases.grant(1);
  REQUIRE(first);
  REQUIRE(second);  // two steps are left, and no lease is outstanding
  CHECK(first->clock == 2);
  CHECK(first->position == 300);
  CHECK(second->position == 310);
  CHECK_FALSE(leases.grant(2));
  CHECK(leases.done(0, 2, 0));
  CHECK(leases.position() == 310);
  CHECK_FALSE(leases.finished());
  CHECK(leases.done(1, 2, 0));
  CHECK(leases.position() == 320);
  CHECK(leases.finished());
  leases.count_lost(7);
  CHECK(leases.lost_samples() == 7);
}
