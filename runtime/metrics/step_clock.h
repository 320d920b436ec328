// How a worker's time is spent in its steps.
#pragma once

#include <functional>
#include <utility>

namespace mlk::rt {

// Seconds since any fixed point; only differences matter.
using Clock = std::function<double()>;
double steady_seconds();

// In seconds. No step includes the time of an evaluation or a report, or of a wait for a lost peer.
struct StepTimes {
  double compute = 0;        // forward, backward, update; and step_delay_ms, which simulates a slow device
  double data = 0;           // getting the batch
  double communication = 0;  // waiting for peers, and adding up what they send

  double own() const { return compute + data; }  // the duration of the step without peers
  double total() const { return own() + communication; }
  StepTimes& operator+=(const StepTimes& other);
};

// A process does one activity at a time, and calls turn_to() when it begins another. Each call reads the
// clock once. For one thread at a time.
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
