// The update rule. Elementwise, so that a server may apply it to any part of the arena.
#pragma once

#include <span>

#include "kernels/ops.h"

namespace mlk::rt {

// momentum = mu * momentum + gradients; parameters -= lr * momentum. The three spans have one length.
class SgdMomentum {
 public:
  explicit SgdMomentum(kernels::Ops& ops) : ops_(ops) {}
  void apply(std::span<float> parameters, std::span<const float> gradients, std::span<float> momentum,
             float lr, float mu) const {
    ops_.sgd_momentum(parameters, gradients, momentum, lr, mu);
  }

 private:
  kernels::Ops& ops_;
};

}  // namespace mlk::rt
