// Where the time of a worker's steps goes.
#pragma once

#include <functional>
#include <utility>

namespace mlk::rt {

// Seconds since any fixed point. Only differences count.
using Clock = std::function<double()>;
double steady_seconds();

// Seconds. Evaluating, reporting and waiting for a lost peer to come back belong to no step.
struct StepTimes {
  double compute = 0;        // forward, backward, update; step_delay_ms counts as a slower device would
  double data = 0;           // waiting for the batch
  double communication = 0;  // waiting for peers, adding up included

  double own() const { return compute + data; }  // what the step would take without peers
  double total() const { return own() + communication; }
  StepTimes& operator+=(const StepTimes& other);
};

// A process does one thing at a time, and says so when it turns to the next: one reading of the clock each.
// Not for two threads at once.
class StepClock {
 public:
  explicit StepClock(Clock clock = steady_seconds) : clock_(std::move(clock)) {}

  enum class Activity { other, compute, data, communication };
  void turn_to(Activity activity);

  // The times since the last call.
  StepTimes take();

 private:
  Clock clock_;
  Activity activity_ = Activity::other;
  double since_ = 0;
  StepTimes times_;
};

}  // namespace mlk::rt
