// Checkpoints of a process that holds the whole state, made while training continues.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <span>
#include <string>

#include "kernels/ops.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/launch/job.h"

namespace mlk::rt {

// Tensors of the current state. The optimizer's state has as many floats for each slot as there are
// parameters. The host reads these tensors only for a checkpoint.
struct LiveState {
  std::uint64_t step = 0, position = 0;
  std::span<const float> parameters, optimizer_state;
  RunHistory history = {};
};

// Training pauses while the state is copied; a separate thread writes the copy. There is only one copy. If a
// checkpoint falls due while the previous one is being written, the new checkpoint is made from the first
// state after that write. So training need not wait, and one copy is enough. Without a folder for checkpoints
// nothing is written, and last() returns committed. For one thread.
class Checkpointer {
 public:
  // All references must outlive this object. ops: the Ops of the tensors in the states. data: the data of the
  // training.
  Checkpointer(const Job& job, std::span<const TensorInfo> tensors, kernels::Ops& ops,
               const std::optional<DataSummary>& data = {});

  // The newest usable checkpoint. Throws as CheckpointStore::load_newest(), and Failure{bad_data} if the
  // checkpoint was trained with other data.
  std::optional<TrainingState> restore();

  // Call before training continues from this step. If no step is left to train, does nothing. Otherwise
  // throws CheckpointStore::unwritable() if nothing can be saved.
  void require_writable(std::uint64_t step);

  // Call after each step.
  void after_step(const LiveState& state);

  // Makes the last checkpoint, from a state that no longer changes. Call last() again while it returns
  // under_way. A failed write is retried for `patience`, since no other process has the trained model.
  // failed: there is no checkpoint of this step.
  enum class Last { under_way, committed, failed };
  Last last(const LiveState& state, std::chrono::seconds patience);

  // Like last(), but waits for the outcome, and returns whether the checkpoint is committed. For a process
  // that is about to end.
  bool save_now(const LiveState& state, std::chrono::seconds patience = std::chrono::seconds(0));
  // How long a process that is about to end may try to save a trained model: less than the grace period of a
  // pod.
  static constexpr std::chrono::seconds leave_patience{15};

  // The newest step that has a checkpoint; 0: none is known.
  std::uint64_t committed() const { return committed_; }
  // Why no step after committed() could be saved; empty if no attempt has failed since then. The reporter
  // gets this reason, too.
  std::string why_unsaved() const { return unsaved_ ? unsaved_->reason : ""; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Outcome {
    bool saved = false;
    std::string why;  // why it was not saved
  };
  void failed(std::uint64_t step, const std::string& why);
  void start(const LiveState& state);
  bool writing();  // also collects the outcome of a finished write

  const std::span<const TensorInfo> tensors_;
  kernels::Ops& ops_;
  const CheckpointStore store_;
  const bool wanted_;
  const std::uint64_t every_, last_step_;
  const Job& job_;
  std::optional<Unsaved> unsaved_;
  bool due_ = false;
  std::uint64_t committed_ = 0;
  std::optional<Clock::time_point> first_try_;  // of the last checkpoint
  Clock::time_point next_try_;
  Snapshot snapshot_;
  std::future<Outcome> written_;  // declared last: destroyed before the things that its thread uses
};

}  // namespace mlk::rt
