// The multi-layer perceptron. Weights are [outputs, inputs], as in PyTorch, so checkpoints can be exchanged.
#include "runtime/model/mlp.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/random.h"

namespace mlk::rt {

using kernels::Transpose;

namespace {

std::vector<int> widths_of(const ModelConfig& config, int inputs, int classes) {
  std::vector<int> widths{inputs};
  widths.insert(widths.end(), config.hidden.begin(), config.hidden.end());
  widths.push_back(classes);
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

Mlp::Mlp(const ModelConfig& config, int inputs, int classes, std::uint64_t seed, kernels::Ops& ops)
    : Model(tensors_between(widths_of(config, inputs, classes)), ops) {
  const std::vector<int> widths = widths_of(config, inputs, classes);
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

std::optional<Evaluation> Mlp::evaluate(const Dataset& data, const std::function<bool()>& stop) {
  constexpr std::uint64_t rows_at_once = 256;
  BatchBuffer buffer(ops_);
  std::vector<std::uint64_t> ids;
  Evaluation sum;
  for (std::uint64_t first = 0; first < data.size(); first += rows_at_once) {
    if (stop && stop()) return {};
    ids.clear();
    for (std::uint64_t id = first; id < std::min(first + rows_at_once, data.size()); ++id) ids.push_back(id);
    const Batch batch = data.gather(ids, buffer);
    forward(batch);
    const int rows = static_cast<int>(batch.size), classes = layers_.back().outputs;
    const float* logits = activations_.back().data();
    sum.loss +=
        static_cast<double>(ops_.softmax_cross_entropy(rows, classes, logits, batch.labels.data())) * rows;
    sum.accuracy += static_cast<double>(ops_.count_correct(rows, classes, logits, batch.labels.data()));
  }
  const auto size = static_cast<double>(data.size());
  return Evaluation{sum.loss / size, sum.accuracy / size};
}

}  // namespace mlk::rt
