// Checkpoints of a process that has the whole state, made while training goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <span>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/launch/job.h"

namespace mlk::rt {

// The state where it lives. The optimizer's part: slots times as long as the parameters.
struct LiveState {
  std::uint64_t step = 0, position = 0;
  std::span<const float> parameters, optimizer_state;
  RunHistory history = {};
};

// Training stands still for one copy of the state; a thread of its own writes the copy. There is one copy: a
// checkpoint that falls due while the last one is still being written is made of the first state after that,
// which is worth more than that of the step at which it was due, and costs neither a wait nor a second copy.
// Without a folder for checkpoints nothing is done. For one thread.
class Checkpointer {
 public:
  // All of it outlives this.
  Checkpointer(const Job& job, std::span<const TensorInfo> tensors);

  // The newest checkpoint that can be used. Throws as CheckpointStore::load_newest().
  std::optional<TrainingState> restore();

  // After each step.
  void after_step(const LiveState& state);

  // The last checkpoint, of a state that changes no more: call it again while it is under way. What fails is
  // tried again, as long as `patience` lasts: nobody else has what was trained. Failed: there is none of this
  // step.
  enum class Last { under_way, committed, failed };
  Last last(const LiveState& state, std::chrono::seconds patience);

  // The same, waited for: of a process that is to end.
  bool save_now(const LiveState& state);

  // The newest step of which there is a checkpoint; 0: none is known of.
  std::uint64_t committed() const { return committed_; }

 private:
  using Clock = std::chrono::steady_clock;
  void start(const LiveState& state);
  bool writing();  // and takes the outcome of what is written

  const std::span<const TensorInfo> tensors_;
  const CheckpointStore store_;
  const bool wanted_;
  const std::uint64_t every_;
  bool due_ = false;
  std::uint64_t committed_ = 0;
  std::optional<Clock::time_point> first_try_;  // of the last one
  Clock::time_point next_try_;
  Snapshot snapshot_;
  std::future<bool> written_;  // after what its thread uses
};

}  // namespace mlk::rt
