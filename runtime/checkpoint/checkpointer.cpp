// Decides when to copy the state, and collects the outcome of the write.
#include "runtime/checkpoint/checkpointer.h"

#include <system_error>
#include <thread>

namespace mlk::rt {
namespace {

constexpr std::chrono::seconds retry_interval{2};

}  // namespace

Checkpointer::Checkpointer(const Job& job, std::span<const TensorInfo> tensors, kernels::Ops& ops,
                           const std::optional<DataSummary>& data)
    : tensors_(tensors),
      ops_(ops),
      store_(job.env.checkpoints, job.config.checkpoint.keep, job.log),
      wanted_(!job.env.checkpoints.empty()),
      every_(job.config.checkpoint.every),
      last_step_(job.config.steps),
      job_(job) {
  snapshot_.data = data;
}

std::optional<TrainingState> Checkpointer::restore() {
  if (!wanted_) return {};
  auto found = store_.load_newest(tensors_);
  if (!found) return found;
  committed_ = found->step;
  if (const std::string why = refuse_other_data(found->data, snapshot_.data, found->step); !why.empty())
    throw Failure(ExitCode::bad_data, job_.env.data + ": " + why);
  return found;
}

void Checkpointer::require_writable(std::uint64_t step) {
  if (!wanted_ || step >= last_step_) return;
  const std::string why = store_.why_unwritable();
  if (why.empty()) return;
  failed(step, why);
  throw store_.unwritable(why);
}

void Checkpointer::failed(std::uint64_t step, const std::string& why) {
  unsaved_ = {unsaved_ ? unsaved_->since : step, why};
  job_.reporter.unsaved(unsaved_);
}

void Checkpointer::start(const LiveState& state) {
  const std::size_t size = state.parameters.size();
  snapshot_.restart(state.step, state.position, size + state.optimizer_state.size());
  snapshot_.history = state.history;
  snapshot_.add(0, 0, ops_.read(state.parameters));
  for (std::size_t slot = 0; slot < state.optimizer_state.size() / size; ++slot) {
    snapshot_.add(1 + slot, 0, ops_.read(state.optimizer_state.subspan(slot * size, size)));
  }
  try {
    written_ = std::async(std::launch::async, [this] {
      Outcome outcome;
      outcome.saved = store_.save(snapshot_, tensors_, &outcome.why);
      return outcome;
    });
  } catch (const std::system_error& error) {
    store_.warn(state.step, error.what());
    failed(state.step, reason_of(error));
  }
}

bool Checkpointer::writing() {
  if (!written_.valid()) return false;
  if (written_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return true;
  const Outcome outcome = written_.get();
  if (!outcome.saved) {
    failed(snapshot_.step, outcome.why);
  } else {
    committed_ = snapshot_.step;
    unsaved_.reset();
    job_.reporter.unsaved(unsaved_);
  }
  return false;
}

void Checkpointer::after_step(const LiveState& state) {
  if (!wanted_ || every_ == 0) return;
  if (state.step % every_ == 0) due_ = true;
  if (writing() || !due_) return;
  due_ = false;
  start(state);
}

Checkpointer::Last Checkpointer::last(const LiveState& state, std::chrono::seconds patience) {
  if (writing()) return Last::under_way;
  if (!wanted_ || state.step == committed_) return Last::committed;
  const auto now = Clock::now();
  if (first_try_) {
    if (now - *first_try_ >= patience) return Last::failed;
    if (now < next_try_) return Last::under_way;
  } else {
    first_try_ = now;
  }
  next_try_ = now + retry_interval;
  start(state);
  return Last::under_way;
}

bool Checkpointer::save_now(const LiveState& state, std::chrono::seconds patience) {
  first_try_.reset();
  Last outcome = Last::under_way;
  while ((outcome = last(state, patience)) == Last::under_way) {
    if (written_.valid()) {
      written_.wait();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  return outcome == Last::committed;
}

}  // namespace mlk::rt
