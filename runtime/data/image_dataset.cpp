// Images in memory. idx.cpp reads them from files.
#include "runtime/data/image_dataset.h"

#include <utility>

#include "runtime/base/huge_pages.h"

namespace mlk::rt {

ImageDataset::ImageDataset(std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels,
                           const SampleShape& shape, float scale)
    : Dataset(shape), pixels_(std::move(pixels)), labels_(std::move(labels)), scale_(scale) {
  ask_for_huge_pages(pixels_);
}

Batch ImageDataset::gather(std::span<const std::uint64_t> ids, BatchBuffer& buffer) const {
  const auto width = static_cast<std::size_t>(shape().inputs);
  if (buffer.inputs.size() < ids.size() * width)
    buffer.inputs = buffer.ops.allocate<float>(ids.size() * width);
  if (buffer.labels.size() < ids.size()) buffer.labels = buffer.ops.allocate<std::int32_t>(ids.size());
  if (buffer.held != this) {
    buffer.held_rows = buffer.ops.hold(pixels_);
    buffer.held_labels = buffer.ops.hold(labels_);
    buffer.held = this;
  }
  buffer.ops.gather_rows(ids, shape().inputs, buffer.held_rows.data(), scale_, buffer.inputs.data());
  buffer.ops.gather_labels(ids, buffer.held_labels.data(), buffer.labels.data());
  return {{buffer.inputs.data(), ids.size() * width}, {buffer.labels.data(), ids.size()}, ids.size()};
}

}  // namespace mlk::rt
