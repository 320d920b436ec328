// The update rule of a run. Elementwise, so that a server may apply it to any part of the parameters.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/floats.h"
#include "kernels/ops.h"
#include "runtime/launch/config.h"

namespace mlk::rt {

// Where an update stands in the run.
struct UpdateCount {
  std::uint64_t step = 0;       // updates of the run before this one
  std::uint64_t state_age = 0;  // those of them since the optimizer's state was zeros: all, if none was lost
  std::uint64_t staleness = 0;  // async: updates since the weights that the gradients were taken at
};

// The rule with its learning rate at every step. Pure but for what it is given to change; any number of
// threads may use one, each with Ops of its own.
class Optimizer {
 public:
  // steps: of the whole run, over which the schedule stretches.
  Optimizer(const OptimizerConfig& config, std::uint64_t steps) : config_(config), steps_(steps) {}

  // Numbers that the rule keeps of each parameter: 1 for sgd (momentum), 2 for adam and adamw (the means of
  // gradients and of their squares).
  std::size_t slots() const { return config_.type == OptimizerType::sgd ? 1 : 2; }

  // Throws Failure{checkpoint_unusable} if a state from a checkpoint is another optimizer's. An empty one
  // fits: it stands for zeros.
  void check_fits(std::span<const float> state, std::size_t parameters) const;

  // One update. The step size is divided by 1 + staleness. state: slots() times as long as the parameters,
  // all of slot 0 first.
  void apply(kernels::Ops& ops, std::span<float> parameters, std::span<const float> gradients,
             std::span<float> state, const UpdateCount& count) const;

 private:
  OptimizerConfig config_;
  std::uint64_t steps_;
};

// What belongs to the parameters [offset, offset + size) of the state of all of them, slot by slot.
kernels::Floats part_of_state(std::span<const float> state, std::size_t slots, std::size_t offset,
                              std::size_t size);

}  // namespace mlk::rt
