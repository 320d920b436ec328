// The interface of every model: its tensors, and the gradients of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/ops.h"
#include "runtime/data/dataset.h"
#include "runtime/launch/config.h"

namespace mlk::rt {

// One tensor of a model. `offset` and `size` are numbers of floats in the arena, where the tensors follow
// each other without gaps.
struct TensorInfo {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0, size = 0;

  bool operator==(const TensorInfo&) const = default;
};

struct Evaluation {
  double loss = 0;      // mean over the labels
  double accuracy = 0;  // share of the labels that have the largest logit
};

// All parameters lie in one flat arena, all gradients in another of the same order. For one thread at a time.
// The same seed gives the same initial bits on every machine.
class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // Values that are written to the result take effect at the next call of a function of this class.
  std::span<float> parameters() {
    rounded_is_new_ = false;
    return parameters_;
  }
  std::span<const float> parameters() const { return parameters_; }
  // Call update() just before an operation that updates all parameters. If `rounded` is not null, the
  // operation must also update the rounded copy there.
  struct Update {
    std::span<float> parameters;
    kernels::BFloat16* rounded = nullptr;
  };
  Update update() {
    rounded_is_new_ = true;
    return {parameters_, rounded_.data()};
  }
  std::span<float> gradients() { return gradients_; }
  kernels::Ops& ops() { return ops_; }  // with them, the host reads and writes parameters and gradients

  // How many additions and multiplications a training step makes for each sample; 0: they are not counted.
  virtual double training_flops() const { return 0; }

  // Gives all parameters the values with which training begins. make_model() has already called this. This
  // version is for models with ReLUs. There, a tensor of more than one axis holds weights [outputs, ...], and
  // any other tensor holds biases.
  virtual void initialise(std::uint64_t seed);

  // Called with an offset: the gradients from that offset to the end are final.
  using Final = std::function<void(std::size_t from)>;

  // The mean loss over the batch. Overwrites gradients() with the mean gradient, the last tensor first.
  // Without `final` and without dropout, a device may replay the operations of an earlier batch that was in
  // the same memory.
  float loss_and_gradients(const Batch& batch, const Final& final = {});

  // Evaluates all samples. Empty if `stop` returned true. `stop` is called every 256 samples or 2048 labels,
  // since large sets take minutes on small machines. The device keeps the samples for the next evaluation, so
  // `data` must outlive this object.
  std::optional<Evaluation> evaluate(const Dataset& data, const std::function<bool()>& stop = {});

 protected:
  // tensors: only their names and shapes are used. Parameters and gradients begin as zeros.
  Model(std::vector<TensorInfo> tensors, kernels::Ops& ops);

  // Queues all operations of loss_and_gradients(). For a batch in the same memory, these are always the same
  // operations, even if the numbers of the batch change.
  virtual void compute_gradients(const Batch& batch, const Final& final) = 0;
  // The mean loss of the batch of the last compute_gradients(). Waits for the device.
  virtual float loss(const Batch& batch) = 0;

  // The sum of the losses over a batch, and the number of its labels that the model predicts correctly.
  virtual Evaluation score(const Batch& batch) = 0;

  // For models of linear layers: allocates a rounded copy of the parameters if the device uses one.
  void allocate_rounded();
  // Call this before operations that use the rounded copy.
  void renew_rounded();
  // The rounded copy of the parameter at this offset; null if there is no copy.
  const kernels::BFloat16* rounded(std::size_t offset) const {
    return rounded_.empty() ? nullptr : rounded_.data() + offset;
  }

  kernels::Ops& ops_;
  std::vector<TensorInfo> tensors_;
  kernels::Buffer<float> parameters_, gradients_;

 private:
  BatchBuffer evaluation_batch_;
  kernels::Buffer<kernels::BFloat16> rounded_;
  bool rounded_is_new_ = false;  // rounded_ matches the parameters
};

// The model that the configuration names, for samples of this shape. `ops` must outlive the model.
std::unique_ptr<Model> make_model(const ModelConfig& config, const SampleShape& shape, std::uint64_t seed,
                                  kernels::Ops& ops);

}  // namespace mlk::rt
