// Adam's correction for the start at zero (Kingma & Ba, section 3) is applied when a mean is updated, not
// when it is read: at age t the new value has the weight (1 - beta) / (1 - beta^(t+1)), so the weights of all
// values always add up to one. Therefore the state means the same at every age, and a checkpoint need not
// store the age of each part. This holds even if servers have lost the state in the middle of the run, and it
// has started again at zero.
#include "runtime/model/optimizer.h"

#include <string>

#include "runtime/base/exit_code.h"
#include "runtime/base/power.h"
#include "runtime/model/schedule.h"

namespace mlk::rt {
namespace {

// The weight of the newest value in a running mean that has seen `age` values before it.
double newest_share(double beta, std::uint64_t age) { return (1 - beta) / (1 - power(beta, age + 1)); }

kernels::SgdStep sgd_step(const OptimizerConfig& config, double lr) {
  return {static_cast<float>(lr), static_cast<float>(config.momentum),
          static_cast<float>(config.weight_decay), config.nesterov};
}

// adam adds the weight decay to the gradient, so the moments include it; adamw subtracts it from the
// parameters.
kernels::AdamStep adam_step(const OptimizerConfig& config, double lr, std::uint64_t age) {
  const double mean_share = newest_share(config.beta1, age), square_share = newest_share(config.beta2, age);
  kernels::AdamStep step;
  step.lr = static_cast<float>(lr);
  step.epsilon = static_cast<float>(config.epsilon);
  (config.type == OptimizerType::adam ? step.l2 : step.decay) =
      static_cast<float>(config.type == OptimizerType::adam ? config.weight_decay : lr * config.weight_decay);
  step.beta1 = static_cast<float>(1 - mean_share);
  step.one_minus_beta1 = static_cast<float>(mean_share);
  step.beta2 = static_cast<float>(1 - square_share);
  step.one_minus_beta2 = static_cast<float>(square_share);
  return step;
}

}  // namespace

void Optimizer::apply(kernels::Ops& ops, std::span<float> parameters, std::span<const float> gradients,
                      std::span<float> state, const UpdateCount& count, kernels::BFloat16* rounded) const {
  const double lr = config_.lr * schedule_factor(config_.schedule, steps_, count.step) /
                    static_cast<double>(1 + count.staleness);
  if (config_.type == OptimizerType::sgd) {
    ops.sgd(parameters, gradients, state, sgd_step(config_, lr), rounded);
  } else {
    const std::size_t size = parameters.size();
    ops.adam(parameters, gradients, state.first(size), state.last(size),
             adam_step(config_, lr, count.state_age), rounded);
  }
}

void Optimizer::check_fits(std::span<const float> state, std::size_t parameters) const {
  if (state.empty() || state.size() == slots() * parameters) return;
  throw Failure(ExitCode::checkpoint_unusable,
                "the checkpoint was made with another optimizer: its values of state per parameter are " +
                    std::to_string(state.size() / parameters) + ", not " + std::to_string(slots()));
}

kernels::Floats part_of_state(std::span<const float> state, std::size_t slots, std::size_t offset,
                              std::size_t size) {
  kernels::Floats part;
  part.reserve(slots * size);
  const std::size_t whole = state.size() / slots;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const auto values = state.subspan(slot * whole + offset, size);
    part.insert(part.end(), values.begin(), values.end());
  }
  return part;
}

}  // namespace mlk::rt
