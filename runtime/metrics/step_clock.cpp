// Adds up time by activity.
#include "runtime/metrics/step_clock.h"

#include <chrono>
#include <utility>

namespace mlk::rt {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

StepTimes& StepTimes::operator+=(const StepTimes& other) {
  compute += other.compute;
  data += other.data;
  communication += other.communication;
  return *this;
}

void StepClock::turn_to(Activity activity) {
  const double now = clock_(), elapsed = now - since_;
  if (activity_ == Activity::compute) times_.compute += elapsed;
  if (activity_ == Activity::data) times_.data += elapsed;
  if (activity_ == Activity::communication) times_.communication += elapsed;
  activity_ = activity;
  since_ = now;
}

StepTimes StepClock::take() {
  turn_to(activity_);
  return std::exchange(times_, {});
}

}  // namespace mlk::rt
