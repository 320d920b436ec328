// The checkpoint of a run's last step. A process that finds this checkpoint knows that the run is trained,
// and ends successfully without its peers.
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
  explicit LastCheckpoint(const Job& job);  // the job must outlive this object

  // Returns the state of the last checkpoint, or nothing if no usable one exists. Reads the disk at most once
  // a second, and returns nothing in between. So a waiting process may call this often.
  std::optional<TrainingState> find(std::span<const TensorInfo> tensors);
  // Returns whether the newest checkpoint is of the last step (or a later one), and its files are intact.
  // Does not need the tensors of the model.
  bool is_there() const;

 private:
  bool claimed() const;

  const CheckpointStore store_;
  const bool wanted_;
  const std::uint64_t step_;
  std::chrono::steady_clock::time_point next_look_;
  std::uint64_t useless_ = 0;  // the step of the newest checkpoint when the last read failed
};

// Ends a worker that has found the last checkpoint: evaluates the weights and reports the result, as the
// reporting rank does.
ExitCode end_with(const TrainingState& found, Job& job, Trainer& trainer, RunReports& reports);

}  // namespace mlk::rt
