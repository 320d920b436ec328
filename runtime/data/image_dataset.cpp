// Images in memory. idx.cpp reads them from files.
#include "runtime/data/image_dataset.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/base/huge_pages.h"

namespace mlk::rt {

ImageDataset::ImageDataset(std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels,
                           const SampleShape& shape, float scale)
    : Dataset(shape), pixels_(std::move(pixels)), labels_(std::move(labels)), scale_(scale) {
  ask_for_huge_pages(pixels_);
}

std::uint32_t ImageDataset::checksum() const {
  constexpr std::uint64_t most = 256 << 20;
  return sampled_crc32c(pixels_, most, sampled_crc32c(labels_, most, 0));
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

std::vector<std::uint64_t> count_labels(std::span<const std::uint8_t> labels, int classes) {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(classes));
  for (const std::uint8_t label : labels) ++counts[label];
  return counts;
}

std::string describe_empty_classes(std::span<const std::uint64_t> counts) {
  const auto empty = std::ranges::count(counts, std::uint64_t{0});
  if (empty == 0) return "";
  const auto first = std::ranges::find(counts, std::uint64_t{0}) - counts.begin();
  return std::to_string(empty) + " of " + std::to_string(counts.size()) +
         " classes have no sample to train on (the first is " + std::to_string(first) +
         "), and the largest label, " + std::to_string(counts.size() - 1) + ", has " +
         std::to_string(counts.back());
}

bool has_stray_label(std::span<const std::uint64_t> counts) {
  const auto empty = static_cast<std::size_t>(std::ranges::count(counts, std::uint64_t{0}));
  const std::uint64_t samples = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  return 2 * empty > counts.size() && samples >= 2 * counts.size();
}

}  // namespace mlk::rt
