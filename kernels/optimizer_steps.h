// One step of each update rule: the numbers that are the same for all parameters.
#pragma once

namespace mlk::kernels {

// Stochastic gradient descent with momentum, as PyTorch has it, without dampening:
//   g = gradient + weight_decay * parameter
//   velocity = momentum * velocity + g
//   parameter -= lr * velocity, or, with nesterov, lr * (g + momentum * velocity)
struct SgdStep {
  float lr = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

// Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019), with running means as moments:
//   g = gradient + l2 * parameter
//   mean = beta1 * mean + one_minus_beta1 * g
//   square = beta2 * square + one_minus_beta2 * g^2
//   parameter -= decay * parameter + lr * mean / (sqrt(square) + epsilon)
// beta1 and beta2 include the correction for the start at zero (runtime/model/optimizer.cpp).
struct AdamStep {
  float lr = 0, epsilon = 0, l2 = 0, decay = 0;
  float beta1 = 0, one_minus_beta1 = 0, beta2 = 0, one_minus_beta2 = 0;
};

}  // namespace mlk::kernels
