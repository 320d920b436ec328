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

// Multi-layer perceptron: linear layers with rectifiers between them, softmax cross entropy at the end. Not
// for two threads at once. The same seed gives the same bits of initial parameters on every machine.
class Mlp {
 public:
  // `ops` must outlive the model.
  Mlp(const ModelConfig& config, int inputs, int classes, std::uint64_t seed, kernels::Ops& ops);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  std::span<float> parameters() { return parameters_; }
  std::span<const float> parameters() const { return parameters_; }
  std::span<float> gradients() { return gradients_; }

  // Called with an offset: the gradients from there on are final.
  using Final = std::function<void(std::size_t from)>;

  // The mean loss over the batch; gradients() is overwritten with the mean over the batch, the last layer
  // first.
  float loss_and_gradients(const Batch& batch, const Final& final = {});

  // Empty if stop, which is asked every 256 samples, says so: large sets take minutes on small machines.
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
      deltas_;  // per layer: its output, and the loss's gradient by it
};

}  // namespace mlk::rt
