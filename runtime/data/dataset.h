// Samples with labels, and mini-batches of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/dropout.h"
#include "kernels/ops.h"
#include "kernels/shapes.h"
#include "runtime/data/data_summary.h"
#include "runtime/launch/config.h"

namespace mlk::rt {

// The shape and the labels of one sample.
struct SampleShape {
  int inputs = 0;                  // the count of numbers, or of tokens in a sequence
  int classes = 0;                 // labels and tokens are in [0, classes)
  int labels = 1;                  // a sequence has one for each token: the token after it
  kernels::ImageShape image = {};  // if samples are images: one image, of `inputs` numbers
};

// Determines which numbers of a batch are dropped (set to 0) at random during training. The choice depends on
// a sample's position in the run, so it is the same in every batch, on every worker and on every device.
struct Dropout {
  float probability = 0;                 // 0: nothing is dropped
  std::uint64_t seed = 0, position = 0;  // the seed of the run; the position of the first sample in the run

  // The mask of a tensor with `numbers_of_sample` numbers for each sample. site: the site of the tensor in
  // its model.
  kernels::DropoutMask mask(std::uint64_t site, std::size_t numbers_of_sample) const {
    return {probability, seed, site, position * numbers_of_sample};
  }
};

class Dataset;

// A view into a BatchBuffer: `size` samples, row-major, of numbers or of tokens, and their labels.
struct Batch {
  std::span<const float> inputs;
  std::span<const std::int32_t> labels;
  std::size_t size = 0;
  std::span<const std::int32_t> tokens = {};
  Dropout dropout = {};
};

// Memory that one caller reuses for each batch, and the Ops that gather a batch there. A gather invalidates
// the views of the previous batch.
struct BatchBuffer {
  explicit BatchBuffer(kernels::Ops& gathering) : ops(gathering) {}

  kernels::Ops& ops;
  kernels::Buffer<float> inputs;
  kernels::Buffer<std::int32_t> labels, tokens;
  std::vector<std::int32_t> on_host;  // tokens on their way to the device
  // The samples of the dataset `held`, in memory from which the device reads. That dataset must outlive this
  // object.
  const Dataset* held = nullptr;
  kernels::Buffer<std::uint8_t> held_rows, held_labels;
};

// Immutable, so threads may share it, each with its own BatchBuffer.
class Dataset {
 public:
  explicit Dataset(const SampleShape& shape) : shape_(shape) {}
  virtual ~Dataset() = default;

  const SampleShape& shape() const { return shape_; }
  virtual std::uint64_t size() const = 0;

  // The checksum over the content of all samples, as sampled_crc32c() computes it.
  virtual std::uint32_t checksum() const = 0;

  // Gathers the samples with these ids, in the order of `ids`; each id is below size(). Throws
  // Failure{bad_data} that names the file if a sample has a token that is not below shape().classes.
  virtual Batch gather(std::span<const std::uint64_t> ids, BatchBuffer& buffer) const = 0;

 private:
  SampleShape shape_;
};

struct DataSplit {
  std::unique_ptr<const Dataset> train, held_out;
  std::string warning = {};  // what is odd about the data, if anything
};

DataSummary summary_of(const DataSplit& data);

// Loads the data that the configuration names. The files are in `folder`; CONTRACT.md ("Data") describes
// them. Throws Failure{bad_data} that names the file.
DataSplit load_data(const Config& config, const std::string& folder);

// Returns the number of training samples of the data that load_data() loads, without reading all of it.
// Throws as load_data().
std::uint64_t count_training_samples(const Config& config, const std::string& folder);

}  // namespace mlk::rt
