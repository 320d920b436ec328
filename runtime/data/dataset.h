// Labelled samples in memory, and mini-batches of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/ops.h"

namespace mlk::rt {

// A view into a BatchBuffer: `size` rows of inputs, row-major, and one label for each.
struct Batch {
  std::span<const float> inputs;
  std::span<const std::int32_t> labels;
  std::size_t size = 0;
};

// Memory that one caller reuses for each batch, and what gathers it there. A gather invalidates the views of
// the previous one.
struct BatchBuffer {
  explicit BatchBuffer(kernels::Ops& gathering) : ops(gathering) {}

  kernels::Ops& ops;
  kernels::Buffer<float> inputs;
  kernels::Buffer<std::int32_t> labels;
};

// Pixels stay bytes (a quarter of the memory and of the bandwidth) and become floats in gather().
// Immutable after construction, so threads may share it, each with its own BatchBuffer.
class Dataset {
 public:
  // pixels: labels.size() rows of `inputs` bytes. Labels are in [0, classes). The model gets pixel * scale.
  Dataset(std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels, int inputs, int classes,
          float scale);

  std::uint64_t size() const { return labels_.size(); }
  int inputs() const { return inputs_; }
  int classes() const { return classes_; }

  // The samples `ids`, in that order; each id is below size().
  Batch gather(std::span<const std::uint64_t> ids, BatchBuffer& buffer) const;

 private:
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> labels_;
  int inputs_;
  int classes_;
  float scale_;
};

struct DataSplit {
  Dataset train, held_out;
};

// The number of training samples, from the header of their labels alone. Throws Failure{bad_data} that names
// the file.
std::uint64_t count_training_samples(const std::string& folder);

// Reads the four IDX files of CONTRACT.md ("Data") in `folder`, plain or gzipped.
// Throws Failure{bad_data} that names the file.
DataSplit load_idx(const std::string& folder);

}  // namespace mlk::rt
