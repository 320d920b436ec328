// Fully connected layers: a whole perceptron, or the end of another model.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/model/model.h"

namespace mlk::rt {

// Linear layers with ReLUs between them, softmax cross entropy at the end. Weights are [outputs, inputs], as
// in PyTorch, so checkpoints can be exchanged. Weights and gradients lie in the arenas of the model that owns
// this object.
class DenseLayers {
 public:
  // The number of inputs, the width of each hidden layer, and the number of classes, in this order.
  using Widths = std::vector<int>;
  static Widths widths(int inputs, const std::vector<int>& hidden, int classes);

  // Appends the tensors "layers.<i>.weight" and "layers.<i>.bias".
  static void name_tensors(const Widths& widths, std::vector<TensorInfo>& tensors);

  // first: the index of the first of these tensors in `tensors`. `ops` must outlive this object.
  DenseLayers(const Widths& widths, const std::vector<TensorInfo>& tensors, std::size_t first,
              kernels::Ops& ops);

  // Leaves the output of each layer in separate memory; the output of the last layer is the logits. `input`
  // has `rows` rows. Applies dropout after each ReLU, with the number of the layer as the site.
  void forward(int rows, const float* input, const float* parameters, const Dropout& dropout = {});
  // After forward(): the sum of the losses, and the number of labels that the model predicts correctly.
  Evaluation score(int rows, const std::int32_t* labels);
  // After forward() with the same dropout: the gradients of the mean loss. If input_delta is not null, it
  // becomes the gradient with respect to the input.
  void backward(int rows, const float* input, const std::int32_t* labels, const float* parameters,
                float* gradients, const Model::Final& final, const Dropout& dropout,
                float* input_delta = nullptr);
  // The loss of the last backward(). Waits for the device.
  float loss() { return ops_.read(loss_).front(); }

 private:
  // Applies the dropout after layer `layer` to that layer's activations, or to their gradient.
  void drop(const Dropout& dropout, std::size_t layer, int rows, float* x);

  struct Layer {
    int inputs = 0, outputs = 0;
    std::size_t weight = 0, bias = 0;  // offsets in the arena
  };

  kernels::Ops& ops_;
  std::vector<Layer> layers_;
  // For each layer: its output, and the gradient of the loss with respect to that output.
  std::vector<kernels::Buffer<float>> activations_, deltas_;
  kernels::Buffer<float> loss_;
};

}  // namespace mlk::rt
