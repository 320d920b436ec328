// Dropout: each number finds out by itself whether it is dropped (kernels/dropout.h), with the bits of
// processors.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/kernels.h"

namespace mlk::cuda {
namespace {

__global__ void dropout_kernel(std::size_t size, DropoutMask mask, const float* x, float* out) {
  for_each(size, [=](std::size_t i) { out[i] = mask.keeps(mask.first + i) ? mask.factor() * x[i] : 0; });
}

}  // namespace

void dropout(cudaStream_t stream, std::size_t size, const DropoutMask& mask, const float* x, float* out) {
  launch(grid_for(size), stream, dropout_kernel, size, mask, x, out);
}

}  // namespace mlk::cuda
