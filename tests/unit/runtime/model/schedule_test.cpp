#include "runtime/model/schedule.h"

#include <cmath>
#include <numbers>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/model/schedule");

using namespace mlk::rt;

namespace {

std::vector<double> factors(const ScheduleConfig& schedule, std::uint64_t steps, std::uint64_t count) {
  std::vector<double> all;
  for (std::uint64_t step = 0; step < count; ++step) all.push_back(schedule_factor(schedule, steps, step));
  return all;
}

}  // namespace

TEST_CASE("the constant schedule has the factor 1 at every step") {
  CHECK(factors({}, 3, 5) == std::vector<double>{1, 1, 1, 1, 1});
}

TEST_CASE(
    "the learning rate grows by equal parts during a warmup, and reaches its full value after the warmup") {
  for (const ScheduleType type :
       {ScheduleType::constant, ScheduleType::linear, ScheduleType::cosine, ScheduleType::step}) {
    const auto all = factors({.type = type, .warmup = 3, .every = 5, .factor = 0.5}, 10, 4);
    CHECK(all == std::vector<double>{0.25, 0.5, 0.75, 1});
  }
}

TEST_CASE("the linear schedule falls in equal parts to its final value, and stays there") {
  const auto all = factors({.type = ScheduleType::linear, .final = 0.2}, 4, 7);
  const double expected[] = {1, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2};
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == doctest::Approx(expected[i]));
  CHECK(schedule_factor({.type = ScheduleType::linear}, 1, 1) == 0);
}

TEST_CASE("the cosine schedule is half a cosine over the steps after the warmup, with an error below 1e-15") {
  const ScheduleConfig schedule{.type = ScheduleType::cosine, .warmup = 100, .final = 0.1};
  double before = 1;
  for (std::uint64_t step = 100; step <= 1100; ++step) {
    const double part = static_cast<double>(step - 100) / 1000;
    const double factor = schedule_factor(schedule, 1100, step);
    CHECK(std::abs(factor - (0.1 + 0.9 * (1 + std::cos(std::numbers::pi * part)) / 2)) < 1e-15);
    CHECK(factor <= before);
    before = factor;
  }
  CHECK(schedule_factor(schedule, 1100, 1100) == doctest::Approx(0.1));
  CHECK(schedule_factor(schedule, 1100, 5000) == schedule_factor(schedule, 1100, 1100));
}

TEST_CASE(
    "step decay multiplies the learning rate by its factor after each interval that follows the warmup") {
  const auto all = factors({.type = ScheduleType::step, .warmup = 1, .every = 2, .factor = 0.5}, 8, 8);
  CHECK(all == std::vector<double>{0.5, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.125});
}

TEST_CASE("schedules accept very large numbers of steps") {
  constexpr std::uint64_t many = 1'000'000'000'000;
  CHECK(schedule_factor({.type = ScheduleType::step, .every = 1, .factor = 0.5}, many, many) == 0);
  CHECK(schedule_factor({.type = ScheduleType::cosine}, many, many / 2) == doctest::Approx(0.5));
}
