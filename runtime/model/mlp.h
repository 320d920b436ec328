// The multi-layer perceptron.
#pragma once

#include <vector>

#include "runtime/model/model.h"

namespace mlk::rt {

// Linear layers with ReLUs between them, softmax cross entropy at the end.
class Mlp final : public Model {
 public:
  // hidden: the widths of the layers between. `ops` must outlive the model.
  Mlp(const std::vector<int>& hidden, const SampleShape& shape, std::uint64_t seed, kernels::Ops& ops);

  void initialise(std::uint64_t seed) override;
  float loss_and_gradients(const Batch& batch, const Final& final = {}) override;

 protected:
  Evaluation score(const Batch& batch) override;

 private:
  struct Layer {
    int inputs = 0, outputs = 0;
    std::size_t weight = 0, bias = 0;  // offsets in the arena
  };

  // Leaves each layer's output in activations_; the last one holds the logits.
  void forward(const Batch& batch);

  std::vector<Layer> layers_;
  // For each layer: its output, and the gradient of the loss by it.
  std::vector<kernels::Buffer<float>> activations_, deltas_;
};

}  // namespace mlk::rt
