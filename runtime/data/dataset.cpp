// Samples in memory. idx.cpp reads them from files.
#include "runtime/data/dataset.h"

#include <utility>

#include "kernels/vector_loops.h"
#include "runtime/base/huge_pages.h"

namespace mlk::rt {

Dataset::Dataset(std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels, int inputs, int classes,
                 float scale)
    : pixels_(std::move(pixels)),
      labels_(std::move(labels)),
      inputs_(inputs),
      classes_(classes),
      scale_(scale) {
  ask_for_huge_pages(pixels_);
}

Batch Dataset::gather(std::span<const std::uint64_t> ids, BatchBuffer& buffer) const {
  const auto width = static_cast<std::size_t>(inputs_);
  if (buffer.inputs.size() < ids.size() * width) buffer.inputs.resize(ids.size() * width);
  if (buffer.labels.size() < ids.size()) buffer.labels.resize(ids.size());
  const kernels::VectorLoops& loops = kernels::vector_loops().front();
  // Rows lie anywhere in memory, and the processor cannot guess the next one: it is asked to fetch a few
  // ahead.
  constexpr std::size_t ahead = 4, cache_line = 64;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i + ahead < ids.size()) {
      const std::uint8_t* next = pixels_.data() + ids[i + ahead] * width;
      for (std::size_t byte = 0; byte < width; byte += cache_line) __builtin_prefetch(next + byte);
    }
    loops.scale_bytes(width, pixels_.data() + ids[i] * width, scale_, buffer.inputs.data() + i * width);
    buffer.labels[i] = labels_[ids[i]];
  }
  return {{buffer.inputs.data(), ids.size() * width}, {buffer.labels.data(), ids.size()}, ids.size()};
}

}  // namespace mlk::rt
