// One step of each update rule, in numbers: what is the same for all parameters.
#pragma once

namespace mlk::kernels {

// Stochastic gradient descent with momentum, as PyTorch has it, without dampening:
//   g = gradient + weight_decay * parameter
//   velocity = momentum * velocity + g
//   parameter -= lr * velocity, or with nesterov lr * (g + momentum * velocity)
struct SgdStep {
  float lr = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

// Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019), with moments that are running means of what
// was seen:
//   g = gradient + l2 * parameter
//   mean = keep_mean * mean + take_mean * g
//   square = keep_square * square + take_square * g^2
//   parameter -= decay * parameter + lr * mean / (sqrt(square) + epsilon)
// runtime/model/optimizer.cpp says which numbers make it either.
struct AdamStep {
  float lr = 0, epsilon = 0, l2 = 0, decay = 0;
  float keep_mean = 0, take_mean = 0, keep_square = 0, take_square = 0;
};

}  // namespace mlk::kernels
