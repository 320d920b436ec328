// The models that the runtime trains. All parameters lie in one flat arena, all gradients in another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/floats.h"
#include "kernels/ops.h"
#include "runtime/data/dataset.h"
#include "runtime/launch/config.h"

namespace mlk::rt {

// One tensor of the model. Offset and size count floats in the arena; tensors are adjacent, in order.
struct TensorInfo {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0, size = 0;

  bool operator==(const TensorInfo&) const = default;
};

struct Evaluation {
  double loss = 0;      // mean over the samples
  double accuracy = 0;  // share of the samples whose largest logit is their label
};

// Multi-layer perceptron: linear layers with ReLUs between them, softmax cross entropy at the end. For one
// thread at a time. The same seed gives the same initial bits on every machine.
class Mlp {
 public:
  // `ops` must outlive the model.
  Mlp(const ModelConfig& config, int inputs, int classes, std::uint64_t seed, kernels::Ops& ops);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  std::span<float> parameters() { return parameters_; }
  std::span<const float> parameters() const { return parameters_; }
  std::span<float> gradients() { return gradients_; }

  // Called with an offset: the gradients from that offset to the end are final.
  using Final = std::function<void(std::size_t from)>;

  // The mean loss over the batch. Overwrites gradients() with the mean gradient, the last layer first.
  float loss_and_gradients(const Batch& batch, const Final& final = {});

  // Empty if `stop` returned true. It is asked every 256 samples, since large sets take minutes on small
  // machines.
  std::optional<Evaluation> evaluate(const Dataset& data, const std::function<bool()>& stop = {});

 private:
  struct Layer {
    int inputs = 0, outputs = 0;
    std::size_t weight = 0, bias = 0;  // offsets in the arena
  };

  // Leaves each layer's output in activations_; the last one holds the logits.
  void forward(const Batch& batch);
  void initialise(std::uint64_t seed);

  kernels::Ops& ops_;
  std::vector<Layer> layers_;
  std::vector<TensorInfo> tensors_;
  kernels::Floats parameters_, gradients_;
  std::vector<kernels::Floats> activations_,
      deltas_;  // per layer: its output, and the gradient of the loss by it
};

}  // namespace mlk::rt
