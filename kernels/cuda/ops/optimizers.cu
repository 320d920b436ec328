// The update rules, with the same operations in the same order as in ReferenceOps. With -fmad=false, the
// results have the same bits as on processors. The rounded copy is aligned as the parameters are.
#include "kernels/cuda/base/elementwise.h"
#include "kernels/cuda/base/kernels.h"

namespace mlk::cuda {
namespace {

__global__ void sgd_kernel(std::size_t size, std::size_t head, float* parameters, const float* gradients,
                           float* velocity, SgdStep step, BFloat16* rounded) {
  for_each_wide(size, head, [=](auto width, std::size_t i) {
    auto p = load<width>(parameters + i), g = load<width>(gradients + i), v = load<width>(velocity + i);
    for (unsigned j = 0; j < width; ++j) {
      g.of[j] += step.weight_decay * p.of[j];
      v.of[j] = step.momentum * v.of[j] + g.of[j];
      p.of[j] -= step.lr * (step.nesterov ? g.of[j] + step.momentum * v.of[j] : v.of[j]);
    }
    store(velocity + i, v);
    store(parameters + i, p);
    if (rounded) store(rounded + i, p);
  });
}

__global__ void adam_kernel(std::size_t size, std::size_t head, float* parameters, const float* gradients,
                            float* mean, float* square, AdamStep step, BFloat16* rounded) {
  for_each_wide(size, head, [=](auto width, std::size_t i) {
    auto p = load<width>(parameters + i), m = load<width>(mean + i), s = load<width>(square + i);
    const auto of_gradients = load<width>(gradients + i);
    for (unsigned j = 0; j < width; ++j) {
      const float g = of_gradients.of[j] + step.l2 * p.of[j];
      m.of[j] = step.beta1 * m.of[j] + step.one_minus_beta1 * g;
      s.of[j] = step.beta2 * s.of[j] + step.one_minus_beta2 * (g * g);
      const float direction = m.of[j] / (sqrtf(s.of[j]) + step.epsilon);
      p.of[j] -= step.decay * p.of[j] + step.lr * direction;
    }
    store(mean + i, m);
    store(square + i, s);
    store(parameters + i, p);
    if (rounded) store(rounded + i, p);
  });
}

}  // namespace

void sgd(cudaStream_t stream, std::size_t size, float* parameters, const float* gradients, float* velocity,
         const SgdStep& step, BFloat16* rounded) {
  launch(wide_grid_for(size), stream, sgd_kernel, size, head_of(size, parameters, gradients, velocity),
         parameters, gradients, velocity, step, rounded);
}

void adam(cudaStream_t stream, std::size_t size, float* parameters, const float* gradients, float* mean,
          float* square, const AdamStep& step, BFloat16* rounded) {
  launch(wide_grid_for(size), stream, adam_kernel, size, head_of(size, parameters, gradients, mean, square),
         parameters, gradients, mean, square, step, rounded);
}

}  // namespace mlk::cuda
