// The checkpoint of a run's last step. A process that finds it knows that the run is trained, and needs no
// peers to end well.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/base/exit_code.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/launch/job.h"
#include "runtime/train/trainer.h"

namespace mlk::rt {

// For one thread.
class LastCheckpoint {
 public:
  explicit LastCheckpoint(const Job& job);  // the job must outlive this

  // Its state; nothing if there is none that can be used. A waiting process may call it often: it looks at
  // most once a second.
  std::optional<TrainingState> find(std::span<const TensorInfo> tensors);
  // Whether it is there; for processes that do not know the model.
  bool is_there() const;

 private:
  bool claimed() const;

  const CheckpointStore store_;
  const bool wanted_;
  const std::uint64_t step_;
  std::chrono::steady_clock::time_point next_look_;
  std::uint64_t useless_ = 0;  // the newest step at the last unsuccessful look
};

// Ends a worker that has found it: evaluates the weights and reports, as the reporting rank does.
ExitCode end_with(const TrainingState& found, Job& job, Trainer& trainer, RunReports& reports);

}  // namespace mlk::rt
