#include "runtime/metrics/telemetry.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/metrics/telemetry");

namespace mlk::rt {
namespace {

TEST_CASE(
    "a step is counted in the bucket with the smallest bound that the time of the step does not exceed") {
  CHECK(step_bounds ==
        std::array<double, 13>{0.0001, 0.00025, 0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1, 2.5, 10, 25, 100});
  const auto place_of = [](double seconds) {
    Telemetry telemetry;
    telemetry.step(1, 1, {seconds, 0, 0});
    const Measurements all = telemetry.measurements();
    std::size_t place = all.durations.size();
    for (std::size_t i = 0; i < all.durations.size(); ++i) {
      if (all.durations[i] == 0) continue;
      CHECK(all.durations[i] == 1);
      CHECK(place == all.durations.size());
      place = i;
    }
    return place;
  };
  CHECK(place_of(0) == 0);
  for (std::size_t i = 0; i < step_bounds.size(); ++i) {
    CAPTURE(i);
    CHECK(place_of(step_bounds[i]) == i);
    CHECK(place_of(std::nextafter(step_bounds[i], std::numeric_limits<double>::infinity())) == i + 1);
  }
}

TEST_CASE("the bucket of a step depends only on the sum of its times") {
  Telemetry telemetry;
  telemetry.step(1, 1, {0.5, 0.75, 1.5});  // 2.75 s
  CHECK(telemetry.measurements().durations[10] == 1);
}

TEST_CASE("the step of the run is that of the latest call of step() or report()") {
  Telemetry telemetry;
  CHECK_FALSE(telemetry.measurements().step);
  telemetry.report({40, 3, 0.5, 7});  // by a rank that has just taken over and computed nothing yet
  Measurements all = telemetry.measurements();
  CHECK(all.step == 40);
  CHECK(all.steps == 0);
  CHECK(all.samples == 0);
  REQUIRE(all.report);
  CHECK(all.report->step == 40);
  CHECK(all.report->epoch == 3);
  CHECK(all.report->loss == 0.5);
  CHECK(all.report->samples_per_s == 7);
  telemetry.step(41, 8, {1, 2, 4});
  all = telemetry.measurements();
  CHECK(all.step == 41);
  CHECK(all.report->step == 40);
  CHECK(all.steps == 1);
  CHECK(all.samples == 8);
  CHECK(all.times.compute == 1);
  CHECK(all.times.data == 2);
  CHECK(all.times.communication == 4);
}

TEST_CASE("the measurements have the staleness of the last report that had one") {
  Telemetry telemetry;
  telemetry.report({1, 0, 0, 0});
  CHECK_FALSE(telemetry.measurements().staleness);
  telemetry.staleness({6, 4, 3});
  CHECK_FALSE(telemetry.measurements().staleness);  // not before the next report
  Staleness of_one;
  of_one.observe(9);
  CHECK(of_one.sum == 9);
  CHECK(of_one.most == 9);
  CHECK(of_one.count == 1);
  telemetry.staleness(of_one);
  const Telemetry::Interval interval = telemetry.report({2, 0, 0, 0});
  CHECK(interval.steps == 0);
  for (const Staleness& told : {interval.staleness, *telemetry.measurements().staleness}) {
    CHECK(told.sum == 15);
    CHECK(told.most == 9);
    CHECK(told.count == 4);
    CHECK(told.mean() == 3.75);
  }
  CHECK(telemetry.report({3, 0, 0, 0}).staleness.count == 0);
  CHECK(telemetry.measurements().staleness->sum == 15);
  telemetry.staleness({1, 1, 1});
  telemetry.report({4, 0, 0, 0});
  CHECK(telemetry.measurements().staleness->sum == 1);
  CHECK(Staleness().mean() == 0);
}

TEST_CASE("the measurements have the latest state of the run and its latest accuracy") {
  Telemetry telemetry;
  telemetry.run({1, 1, 0, 0, {}});
  telemetry.run({3, 5, 2, 64, 1});
  telemetry.evaluated(0.5);
  telemetry.evaluated(0.75);
  CHECK(!telemetry.measurements().held_out_loss);
  telemetry.evaluated(0.75, 1.5);
  const Measurements all = telemetry.measurements();
  CHECK(all.accuracy == 0.75);
  CHECK(all.held_out_loss == 1.5);
  REQUIRE(all.run);
  CHECK(all.run->workers == 3);
  CHECK(all.run->generation == 5);
  CHECK(all.run->restarts == 2);
  CHECK(all.run->lost_samples == 64);
  CHECK(all.run->slowest == 1);
}

TEST_CASE("a new interval starts at zero, while the totals of the process continue") {
  Telemetry telemetry;
  telemetry.step(1, 16, {1, 2, 4});
  telemetry.staleness({3, 3, 1});
  telemetry.start_interval();
  telemetry.step(2, 16, {8, 16, 32});
  const Telemetry::Interval interval = telemetry.report({2, 0, 0, 0});
  CHECK(interval.steps == 1);
  CHECK(interval.times.compute == 8);
  CHECK(interval.times.data == 16);
  CHECK(interval.times.communication == 32);
  CHECK(interval.staleness.count == 0);
  const Measurements all = telemetry.measurements();
  CHECK(all.steps == 2);
  CHECK(all.samples == 32);
  CHECK(all.times.total() == 63);
}

}  // namespace
}  // namespace mlk::rt
