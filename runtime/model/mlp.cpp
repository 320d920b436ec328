// The multi-layer perceptron. Weights are [outputs, inputs], as in PyTorch, so checkpoints can be exchanged.
#include "runtime/model/mlp.h"

#include <cmath>

#include "runtime/base/random.h"

namespace mlk::rt {

using kernels::Transpose;

namespace {

std::vector<int> widths_of(const std::vector<int>& hidden, const SampleShape& shape) {
  std::vector<int> widths{shape.inputs};
  widths.insert(widths.end(), hidden.begin(), hidden.end());
  widths.push_back(shape.classes);
  return widths;
}

// Of layer i: tensor 2 i is its weight, 2 i + 1 its bias.
std::vector<TensorInfo> tensors_between(const std::vector<int>& widths) {
  std::vector<TensorInfo> tensors;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    tensors.push_back({prefix + "weight", {widths[i + 1], widths[i]}});
    tensors.push_back({prefix + "bias", {widths[i + 1]}});
  }
  return tensors;
}

}  // namespace

Mlp::Mlp(const std::vector<int>& hidden, const SampleShape& shape, std::uint64_t seed, kernels::Ops& ops)
    : Model(tensors_between(widths_of(hidden, shape)), ops) {
  const std::vector<int> widths = widths_of(hidden, shape);
  for (std::size_t i = 0; i + 1 < widths.size(); ++i)
    layers_.push_back({widths[i], widths[i + 1], tensors_[2 * i].offset, tensors_[2 * i + 1].offset});
  activations_.resize(layers_.size());
  deltas_.resize(layers_.size());
  Mlp::initialise(seed);
}

// He initialisation: variance 2 / inputs, which keeps the scale of activations through ReLUs. Uniform,
// because that needs only operations that are exact everywhere; biases start at 0.
void Mlp::initialise(std::uint64_t seed) {
  ops_.scale(0, parameters_, parameters_);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const float bound = std::sqrt(6.0f / static_cast<float>(layer.inputs));
    const std::size_t size = layer.bias - layer.weight;
    const auto weights = parameters().subspan(layer.weight, size), place = ops_.place(weights);
    for (std::size_t k = 0; k < size; ++k) place[k] = (2 * uniform(seed, i, k) - 1) * bound;
    ops_.write(place, weights);
  }
}

void Mlp::forward(const Batch& batch) {
  const int rows = static_cast<int>(batch.size);
  const float* input = batch.inputs.data();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    kernels::Buffer<float>& output = activations_[i];
    // Grows once to the largest batch and never shrinks, so the training loop does not allocate.
    const std::size_t size = batch.size * static_cast<std::size_t>(layer.outputs);
    if (output.size() < size) output = ops_.allocate<float>(size);
    ops_.gemm(Transpose::no, Transpose::yes, rows, layer.outputs, layer.inputs, 1, input,
              parameters_.data() + layer.weight, 0, output.data());
    const float* bias = parameters_.data() + layer.bias;
    if (i + 1 < layers_.size()) {
      ops_.add_bias_relu(rows, layer.outputs, bias, output.data());
    } else {
      ops_.add_bias(rows, layer.outputs, bias, output.data());
    }
    input = output.data();
  }
}

float Mlp::loss_and_gradients(const Batch& batch, const Final& final) {
  forward(batch);
  const int rows = static_cast<int>(batch.size);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (deltas_[i].size() < activations_[i].size()) deltas_[i] = ops_.allocate<float>(activations_[i].size());
  }
  const std::size_t last = layers_.size() - 1;
  const float loss = ops_.softmax_cross_entropy_backward(
      rows, layers_[last].outputs, activations_[last].data(), batch.labels.data(), deltas_[last].data());
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    float* delta = deltas_[i].data();
    float* bias_gradient = gradients_.data() + layer.bias;
    if (i == last) {
      ops_.bias_backward(rows, layer.outputs, delta, bias_gradient);
    } else {
      ops_.bias_relu_backward(rows, layer.outputs, activations_[i].data(), delta, bias_gradient);
    }
    const float* input = i == 0 ? batch.inputs.data() : activations_[i - 1].data();
    ops_.gemm(Transpose::yes, Transpose::no, layer.outputs, layer.inputs, rows, 1, delta, input, 0,
              gradients_.data() + layer.weight);
    if (final) final(layer.weight);
    if (i > 0) {
      ops_.gemm(Transpose::no, Transpose::no, rows, layer.inputs, layer.outputs, 1, delta,
                parameters_.data() + layer.weight, 0, deltas_[i - 1].data());
    }
  }
  return loss;
}

Evaluation Mlp::score(const Batch& batch) {
  forward(batch);
  const int rows = static_cast<int>(batch.size), classes = layers_.back().outputs;
  const float* logits = activations_.back().data();
  return {static_cast<double>(ops_.softmax_cross_entropy(rows, classes, logits, batch.labels.data())) * rows,
          static_cast<double>(ops_.count_correct(rows, classes, logits, batch.labels.data()))};
}

}  // namespace mlk::rt
