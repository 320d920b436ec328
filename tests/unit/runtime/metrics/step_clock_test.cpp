#include "runtime/metrics/step_clock.h"

#include <doctest/doctest.h>

#include "runtime/metrics/telemetry.h"

TEST_SUITE_BEGIN("runtime/metrics/step_clock");

using namespace mlk::rt;
using Activity = StepClock::Activity;

TEST_CASE("StepClock adds up the time of a step by activity, and leaves out time outside of steps") {
  double now = 50;
  StepClock clock([&now] { return now; });
  const auto spend = [&](Activity activity, double seconds) {
    clock.turn_to(activity);
    now += seconds;
  };
  spend(Activity::other, 100);
  spend(Activity::data, 1);
  spend(Activity::compute, 2);
  spend(Activity::communication, 4);
  spend(Activity::compute, 8);
  StepTimes times = clock.take();
  CHECK(times.data == 1);
  CHECK(times.compute == 10);
  CHECK(times.communication == 4);
  CHECK(times.own() == 11);
  CHECK(times.total() == 15);

  now += 3;  // the activity continues after take()
  times = clock.take();
  CHECK(times.compute == 3);
  CHECK(times.total() == 3);
}

TEST_CASE(
    "telemetry counts all steps of the process, and each report has the steps since the previous report") {
  Telemetry telemetry;
  telemetry.step(1, 16, {0.002, 0.001, 0.5});
  telemetry.staleness({3, 2, 2});
  telemetry.start_interval();
  telemetry.step(2, 16, {0.004, 0, 0});
  telemetry.step(3, 16, {0.004, 0, 200});
  telemetry.staleness({4, 4, 1});
  telemetry.staleness({0, 0, 1});

  const Telemetry::Interval interval = telemetry.report({3, 0, 0.25, 0});
  CHECK(interval.steps == 2);
  CHECK(interval.times.compute == doctest::Approx(0.008));
  CHECK(interval.staleness.mean() == 2);
  CHECK(interval.staleness.most == 4);
  CHECK(telemetry.report({3, 0, 0.25, 0}).steps == 0);

  const Measurements all = telemetry.measurements();
  CHECK(all.step == 3);
  CHECK(all.steps == 3);
  CHECK(all.samples == 48);
  CHECK(all.times.communication == doctest::Approx(200.5));
  REQUIRE(all.report);
  CHECK(all.report->loss == 0.25);
  CHECK_FALSE(all.accuracy);
  CHECK_FALSE(all.run);
  CHECK(all.durations.back() == 1);  // longer than any bound
  std::uint64_t counted = 0;
  for (const std::uint64_t count : all.durations) counted += count;
  CHECK(counted == 3);
}
