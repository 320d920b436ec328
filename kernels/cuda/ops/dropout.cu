// Dropout: each thread computes whether its numbers are dropped (kernels/dropout.h). The results have the
// same bits as on processors. Random words come in blocks of four, one word for each number. If the four
// numbers of a thread belong to one block, the thread computes this block once.
#include "kernels/cuda/base/elementwise.h"
#include "kernels/cuda/base/kernels.h"

namespace mlk::cuda {
namespace {

__global__ void dropout_kernel(std::size_t size, std::size_t head, DropoutMask mask, const float* x,
                               float* out) {
  for_each_wide(size, head, [=](auto width, std::size_t i) {
    auto numbers = load<width>(x + i);
    const std::uint64_t first = mask.first + i;
    if (width == 4 && first % 4 == 0) {
      const auto words = mask.words(first / 4);
      for (unsigned j = 0; j < width; ++j)
        numbers.of[j] = words[j] >= mask.threshold() ? mask.factor() * numbers.of[j] : 0;
    } else {
      for (unsigned j = 0; j < width; ++j)
        numbers.of[j] = mask.keeps(first + j) ? mask.factor() * numbers.of[j] : 0;
    }
    store(out + i, numbers);
  });
}

}  // namespace

void dropout(cudaStream_t stream, std::size_t size, const DropoutMask& mask, const float* x, float* out) {
  launch(wide_grid_for(size), stream, dropout_kernel, size, head_of(size, x, out), mask, x, out);
}

}  // namespace mlk::cuda
