// The update rule of a run. Elementwise, so that a server may apply it to any part of the parameters.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/floats.h"
#include "kernels/ops.h"
#include "runtime/launch/config.h"

namespace mlk::rt {

// The position of an update in the run.
struct UpdateCount {
  std::uint64_t step = 0;  // how many updates the run had made before
  // How many updates were made since the optimizer's state was zero: `step`, if the state was never lost.
  std::uint64_t state_age = 0;
  // async: how many updates were made since the worker read the weights with which it computed the gradient.
  std::uint64_t staleness = 0;
};

// The rule, with its learning rate at every step. Has no state of its own: any number of threads may share an
// Optimizer, each with its own Ops.
class Optimizer {
 public:
  // steps: the number of steps of the whole run, which the schedule covers.
  Optimizer(const OptimizerConfig& config, std::uint64_t steps) : config_(config), steps_(steps) {}

  // How many numbers the rule keeps for each parameter: 1 for sgd (momentum), 2 for adam and adamw (the means
  // of gradients and of their squares).
  std::size_t slots() const { return config_.type == OptimizerType::sgd ? 1 : 2; }

  // Throws Failure{checkpoint_unusable} if the state from a checkpoint has another number of slots. An empty
  // state fits and represents zeros.
  void check_fits(std::span<const float> state, std::size_t parameters) const;

  // Applies one update. The step size is divided by 1 + staleness. state: slots() times as long as the
  // parameters, all of slot 0 first. rounded: see Ops::sgd.
  void apply(kernels::Ops& ops, std::span<float> parameters, std::span<const float> gradients,
             std::span<float> state, const UpdateCount& count, kernels::BFloat16* rounded = nullptr) const;

 private:
  OptimizerConfig config_;
  std::uint64_t steps_;
};

// The part of the whole state that belongs to the parameters [offset, offset + size), slot by slot.
kernels::Floats part_of_state(std::span<const float> state, std::size_t slots, std::size_t offset,
                              std::size_t size);

}  // namespace mlk::rt
