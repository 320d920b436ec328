// Labelled images, or other rows of bytes, in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace mlk::rt {

// Pixels stay bytes (a quarter of the memory and of the bandwidth) and become floats in gather().
class ImageDataset final : public Dataset {
 public:
  // pixels: labels.size() rows of shape.inputs bytes. Labels are in [0, shape.classes). The model gets each
  // pixel multiplied by `scale`.
  ImageDataset(std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels, const SampleShape& shape,
               float scale);

  std::uint64_t size() const override { return labels_.size(); }
  Batch gather(std::span<const std::uint64_t> ids, BatchBuffer& buffer) const override;
  std::uint32_t checksum() const override;
  std::span<const std::uint8_t> labels() const { return labels_; }

 private:
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> labels_;
  float scale_;
};

// How many samples each class has. Labels are below `classes`.
std::vector<std::uint64_t> count_labels(std::span<const std::uint8_t> labels, int classes);

// "245 of 256 classes have no sample to train on (the first is 10), and the largest label, 255, has 1"; empty
// if every class has a sample. Pure.
std::string describe_empty_classes(std::span<const std::uint64_t> counts);

// Whether most classes are empty although there are at least twice as many samples as classes. Then the
// largest label is probably not a class but a mark, such as 255 for samples to ignore, and the model would
// get too many classes. Pure.
bool has_stray_label(std::span<const std::uint64_t> counts);

struct ImageSplit {
  ImageDataset train, held_out;
};

// Reads from `folder` the four IDX files that CONTRACT.md ("Data") names, plain or gzipped. Throws
// Failure{bad_data} that names the file.
ImageSplit load_idx(const std::string& folder);

// The number of training samples, from the header of their labels alone. Throws as load_idx().
std::uint64_t count_idx(const std::string& folder);

// As load_idx() and count_idx(), for CIFAR-10's binary files. Images become [height, width, channels].
ImageSplit load_cifar10(const std::string& folder);
std::uint64_t count_cifar10(const std::string& folder);

}  // namespace mlk::rt
