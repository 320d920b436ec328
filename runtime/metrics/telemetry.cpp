// Counts steps and samples, and keeps the newest values.
#include "runtime/metrics/telemetry.h"

#include <algorithm>
#include <utility>

namespace mlk::rt {

Staleness& Staleness::operator+=(const Staleness& other) {
  sum += other.sum;
  most = std::max(most, other.most);
  count += other.count;
  return *this;
}

void Telemetry::step(std::uint64_t step, std::uint64_t samples, const StepTimes& times) {
  const auto bucket = std::lower_bound(step_bounds.begin(), step_bounds.end(), times.total());
  const std::lock_guard lock(mutex_);
  all_.step = step;
  ++all_.steps;
  all_.samples += samples;
  all_.times += times;
  ++all_.durations[static_cast<std::size_t>(bucket - step_bounds.begin())];
  ++interval_.steps;
  interval_.times += times;
}

void Telemetry::staleness(const Staleness& staleness) {
  const std::lock_guard lock(mutex_);
  interval_.staleness += staleness;
}

void Telemetry::run(const RunView& view) {
  const std::lock_guard lock(mutex_);
  all_.run = view;
}

void Telemetry::gpu(const GpuView& view) {
  const std::lock_guard lock(mutex_);
  all_.gpu = view;
}

void Telemetry::bus(const BusTraffic& traffic) {
  const std::lock_guard lock(mutex_);
  interval_.bus.bytes += traffic.bytes;
  interval_.bus.seconds += traffic.seconds;
}

void Telemetry::evaluated(double accuracy, std::optional<double> held_out_loss) {
  const std::lock_guard lock(mutex_);
  all_.accuracy = accuracy;
  all_.held_out_loss = held_out_loss;
}

void Telemetry::start_interval() {
  const std::lock_guard lock(mutex_);
  interval_ = {};
}

Telemetry::Interval Telemetry::report(const Report& report) {
  const std::lock_guard lock(mutex_);
  all_.step = report.step;
  all_.report = report;
  if (interval_.staleness.count > 0) all_.staleness = interval_.staleness;
  if (interval_.bus.seconds > 0) all_.bus = interval_.bus;
  return std::exchange(interval_, {});
}

Measurements Telemetry::measurements() const {
  const std::lock_guard lock(mutex_);
  return all_;
}

}  // namespace mlk::rt
