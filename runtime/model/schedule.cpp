// Constant, linear, cosine (Loshchilov & Hutter 2017, without restarts) and step decay, each after a warmup.
#include "runtime/model/schedule.h"

#include <algorithm>
#include <numbers>

#include "runtime/base/power.h"

namespace mlk::rt {
namespace {

// (1 + cos(pi * x)) / 2 for x in [0, 1], by the series of the cosine on its first quarter: the last bit of
// std::cos may differ between processors.
double half_cosine(double x) {
  if (x > 0.5) return 1 - half_cosine(1 - x);
  const double square = std::numbers::pi * x * std::numbers::pi * x;
  double cosine = 0, term = 1;
  for (int i = 2; i <= 26; i += 2) {
    cosine += term;
    term *= -square / (i * (i - 1));
  }
  return (1 + cosine) / 2;
}

}  // namespace

double schedule_factor(const ScheduleConfig& schedule, std::uint64_t steps, std::uint64_t step) {
  if (step < schedule.warmup) {
    return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup + 1);
  }
  const std::uint64_t done = step - schedule.warmup;
  const std::uint64_t all = std::max(steps, schedule.warmup + 1) - schedule.warmup;
  const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(all));
  switch (schedule.type) {
    case ScheduleType::constant:
      return 1;
    case ScheduleType::linear:
      return 1 - (1 - schedule.final) * part;
    case ScheduleType::cosine:
      return schedule.final + (1 - schedule.final) * half_cosine(part);
    case ScheduleType::step:
      return power(schedule.factor, done / schedule.every);
  }
  return 1;
}

}  // namespace mlk::rt
