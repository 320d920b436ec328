// The update rules, as ReferenceOps has them, operation by operation: with -fmad=false the bits are those of
// processors.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/kernels.h"

namespace mlk::cuda {
namespace {

__global__ void sgd_kernel(std::size_t size, float* parameters, const float* gradients, float* velocity,
                           SgdStep step) {
  for_each(size, [=](std::size_t i) {
    const float g = gradients[i] + step.weight_decay * parameters[i];
    const float v = step.momentum * velocity[i] + g;
    velocity[i] = v;
    parameters[i] -= step.lr * (step.nesterov ? g + step.momentum * v : v);
  });
}

__global__ void adam_kernel(std::size_t size, float* parameters, const float* gradients, float* mean,
                            float* square, AdamStep step) {
  for_each(size, [=](std::size_t i) {
    const float g = gradients[i] + step.l2 * parameters[i];
    const float m = step.beta1 * mean[i] + step.one_minus_beta1 * g;
    const float s = step.beta2 * square[i] + step.one_minus_beta2 * (g * g);
    mean[i] = m;
    square[i] = s;
    const float direction = m / (sqrtf(s) + step.epsilon);
    parameters[i] -= step.decay * parameters[i] + step.lr * direction;
  });
}

}  // namespace

void sgd(cudaStream_t stream, std::size_t size, float* parameters, const float* gradients, float* velocity,
         const SgdStep& step) {
  launch(grid_for(size), stream, sgd_kernel, size, parameters, gradients, velocity, step);
}

void adam(cudaStream_t stream, std::size_t size, float* parameters, const float* gradients, float* mean,
          float* square, const AdamStep& step) {
  launch(grid_for(size), stream, adam_kernel, size, parameters, gradients, mean, square, step);
}

}  // namespace mlk::cuda
