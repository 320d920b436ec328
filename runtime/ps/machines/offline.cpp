// Sums the gradients of slices in the same way as a server.
#include "runtime/ps/machines/offline.h"

namespace mlk::rt {

OfflineSteps::OfflineSteps(const Job& job, Trainer& trainer)
    : job_(job),
      trainer_(trainer),
      slices_(job.config.consistency.sync ? static_cast<std::uint64_t>(job.config.workers.count) : 1) {}

bool OfflineSteps::advance(std::uint64_t& step, std::uint64_t& position) {
  const auto batch = static_cast<std::uint64_t>(job_.config.data.batch);
  trainer_.compute(position + slice_ * batch, batch);
  const auto gradients = trainer_.model().gradients();
  if (sum_.empty()) sum_ = trainer_.ops().allocate<float>(gradients.size());
  trainer_.ops().add_scaled(sum_, static_cast<float>(batch), gradients, sum_);
  if (++slice_ < slices_) return false;

  trainer_.ops().scale(1.0f / static_cast<float>(slices_ * batch), sum_, gradients);
  if (state_.empty()) state_ = trainer_.make_state();
  const std::uint64_t usual_staleness =
      job_.config.consistency.sync ? 0 : static_cast<std::uint64_t>(job_.config.workers.count - 1);
  trainer_.apply(state_, {step, made_, usual_staleness});
  abandon_step();
  ++made_;
  ++step;
  position += slices_ * batch;
  return true;
}

void OfflineSteps::abandon_step() {
  slice_ = 0;
  trainer_.ops().scale(0, sum_, sum_);
}

void OfflineSteps::forget() {
  abandon_step();
  made_ = 0;
  trainer_.ops().scale(0, state_, state_);
}

}  // namespace mlk::rt
