// A batch of samples from a table of bytes.
#include "kernels/cuda/base/elementwise.h"

namespace mlk::cuda {
namespace {

__global__ void gather_rows_kernel(std::size_t size, std::size_t columns, const std::uint64_t* ids,
                                   const std::uint8_t* table, float factor, float* out) {
  for_each(size, [=](std::size_t i) {
    const std::size_t at = ids[i / columns] * columns + i % columns;
    out[i] = static_cast<float>(table[at]) * factor;
  });
}

__global__ void gather_labels_kernel(std::size_t count, const std::uint64_t* ids, const std::uint8_t* table,
                                     std::int32_t* out) {
  for_each(count, [=](std::size_t i) { out[i] = table[ids[i]]; });
}

}  // namespace

void gather_rows(cudaStream_t stream, int count, const std::uint64_t* ids, int columns,
                 const std::uint8_t* table, float factor, float* out) {
  const std::size_t size = area(count, columns);
  launch(grid_for(size), stream, gather_rows_kernel, size, static_cast<std::size_t>(columns), ids, table,
         factor, out);
}

void gather_labels(cudaStream_t stream, int count, const std::uint64_t* ids, const std::uint8_t* table,
                   std::int32_t* out) {
  const auto size = static_cast<std::size_t>(count);
  launch(grid_for(size), stream, gather_labels_kernel, size, ids, table, out);
}

}  // namespace mlk::cuda
