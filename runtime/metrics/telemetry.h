// The measurements of a process and what it knows about its run. The training sets them; reports and the
// metrics server show them.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include "runtime/metrics/step_clock.h"

namespace mlk::rt {

// The step since which nothing could be saved, and the reason.
struct Unsaved {
  std::uint64_t since = 0;
  std::string reason;

  bool operator==(const Unsaved&) const = default;
};

// The state of a distributed run, except its model.
struct RunView {
  std::uint32_t workers = 0;  // that take part
  std::uint64_t generation = 0;
  // How often the run continued after it lost a worker or a server. Checkpoints keep the count.
  std::uint64_t restarts = 0;
  // async: an upper bound on the samples that were trained in part or not at all because a process was lost.
  std::uint64_t lost_samples = 0;
  std::optional<std::uint32_t> slowest;  // the worker that is clearly slower than the others
};

// The age of the weights from which the gradients were computed. In a run without a bound on the staleness,
// the age is the number of updates that server 0 made after these weights were read and before it applied
// their gradient. In a run with a bound, the age is a number of slices of a worker, like the bound (see
// WorkMessage).
struct Staleness {
  std::uint64_t sum = 0, most = 0, count = 0;

  void observe(std::uint64_t staleness) { *this += {staleness, staleness, 1}; }
  double mean() const { return count > 0 ? static_cast<double>(sum) / static_cast<double>(count) : 0; }
  Staleness& operator+=(const Staleness& other);
};

// The bytes that sums over GPUs have moved, counted as nccl-tests counts them for its bus bandwidth, and the
// seconds that the sums took.
struct BusTraffic {
  double bytes = 0, seconds = 0;

  double bytes_per_second() const { return bytes / seconds; }
};

// What the reporting rank says about the run.
struct Report {
  std::uint64_t step = 0, epoch = 0;
  double loss = 0, samples_per_s = 0;
  std::optional<double> tokens_per_s = {};  // of a model that predicts tokens
  std::optional<double> mfu = {};           // model FLOPs utilisation, if the peak of the GPUs is known
};

// The GPU of this process, as far as the values are known: share of the time in which it computed, memory in
// use, power.
struct GpuView {
  std::optional<double> utilization, memory_bytes, watts;
};

// Upper bounds of the histogram of step times, in seconds. Steps above the last bound have a count of their
// own.
inline constexpr std::array<double, 13> step_bounds = {0.0001, 0.00025, 0.001, 0.0025, 0.01, 0.025, 0.1,
                                                       0.25,   1,       2.5,   10,     25,   100};

// All counts and times are those since the start of the process; all other values are the last known ones.
struct Measurements {
  std::optional<std::uint64_t> step;                              // of the run, as far as this process knows
  std::uint64_t steps = 0, samples = 0;                           // computed by this process
  StepTimes times;                                                // of those steps, together
  std::array<std::uint64_t, step_bounds.size() + 1> durations{};  // of those steps, counted by step_bounds
  std::optional<Report> report;                                   // of the reporting rank
  std::optional<double> accuracy, held_out_loss;                  // of the reporting rank
  std::optional<RunView> run;
  GpuView gpu;
  std::optional<Staleness> staleness;  // of the last report that had a staleness
  std::optional<BusTraffic> bus;       // of the last report that had such traffic
};

// Safe for any thread. Each call takes a lock that is never held for long.
class Telemetry {
 public:
  // This process has done its part of `step`, with `samples` samples.
  void step(std::uint64_t step, std::uint64_t samples, const StepTimes& times);
  void staleness(const Staleness& staleness);
  void run(const RunView& view);
  void gpu(const GpuView& view);
  void bus(const BusTraffic& traffic);
  void evaluated(double accuracy, std::optional<double> held_out_loss = {});

  // The counts and times since the last call of report() or start_interval().
  struct Interval {
    std::uint64_t steps = 0;
    StepTimes times;  // of those steps, together
    Staleness staleness;
    BusTraffic bus;
  };
  void start_interval();
  Interval report(const Report& report);  // starts the next interval

  Measurements measurements() const;

 private:
  mutable std::mutex mutex_;
  Measurements all_;
  Interval interval_;
};

}  // namespace mlk::rt
