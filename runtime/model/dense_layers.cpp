#include "runtime/model/dense_layers.h"

#include <string>

namespace mlk::rt {

using kernels::Transpose;

DenseLayers::Widths DenseLayers::widths(int inputs, const std::vector<int>& hidden, int classes) {
  Widths widths{inputs};
  widths.insert(widths.end(), hidden.begin(), hidden.end());
  widths.push_back(classes);
  return widths;
}

void DenseLayers::name_tensors(const Widths& widths, std::vector<TensorInfo>& tensors) {
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    tensors.push_back({prefix + "weight", {widths[i + 1], widths[i]}});
    tensors.push_back({prefix + "bias", {widths[i + 1]}});
  }
}

DenseLayers::DenseLayers(const Widths& widths, const std::vector<TensorInfo>& tensors, std::size_t first,
                         kernels::Ops& ops)
    : ops_(ops), loss_(ops.allocate<float>(1)) {
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    layers_.push_back(
        {widths[i], widths[i + 1], tensors[first + 2 * i].offset, tensors[first + 2 * i + 1].offset});
  }
  activations_.resize(layers_.size());
  deltas_.resize(layers_.size());
}

void DenseLayers::drop(const Dropout& dropout, std::size_t layer, int rows, float* x) {
  if (dropout.probability == 0) return;
  const auto columns = static_cast<std::size_t>(layers_[layer].outputs);
  const std::span<float> all(x, static_cast<std::size_t>(rows) * columns);
  ops_.dropout(dropout.mask(layer, columns), all, all);
}

void DenseLayers::forward(int rows, const float* input, const float* parameters, const Dropout& dropout) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    kernels::Buffer<float>& output = activations_[i];
    // The memory grows to the largest batch so far, and never shrinks, so only the first steps allocate.
    const std::size_t size = static_cast<std::size_t>(rows) * static_cast<std::size_t>(layer.outputs);
    if (output.size() < size) output = ops_.allocate<float>(size);
    ops_.gemm(Transpose::no, Transpose::yes, rows, layer.outputs, layer.inputs, 1, input,
              parameters + layer.weight, 0, output.data());
    const float* bias = parameters + layer.bias;
    if (i + 1 < layers_.size()) {
      ops_.add_bias_relu(rows, layer.outputs, bias, output.data());
      drop(dropout, i, rows, output.data());
    } else {
      ops_.add_bias(rows, layer.outputs, bias, output.data());
    }
    input = output.data();
  }
}

Evaluation DenseLayers::score(int rows, const std::int32_t* labels) {
  const int classes = layers_.back().outputs;
  const float* logits = activations_.back().data();
  return {static_cast<double>(ops_.softmax_cross_entropy(rows, classes, logits, labels)) * rows,
          static_cast<double>(ops_.count_correct(rows, classes, logits, labels))};
}

void DenseLayers::backward(int rows, const float* first_input, const std::int32_t* labels,
                           const float* parameters, float* gradients, const Model::Final& final,
                           const Dropout& dropout, float* input_delta) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (deltas_[i].size() < activations_[i].size()) deltas_[i] = ops_.allocate<float>(activations_[i].size());
  }
  const std::size_t last = layers_.size() - 1;
  ops_.softmax_cross_entropy_backward(rows, layers_[last].outputs, activations_[last].data(), labels,
                                      deltas_[last].data(), loss_.data());
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    float* delta = deltas_[i].data();
    float* bias_gradient = gradients + layer.bias;
    if (i == last) {
      ops_.bias_backward(rows, layer.outputs, delta, bias_gradient);
    } else {
      drop(dropout, i, rows, delta);
      ops_.bias_relu_backward(rows, layer.outputs, activations_[i].data(), delta, bias_gradient);
    }
    const float* input = i == 0 ? first_input : activations_[i - 1].data();
    ops_.gemm(Transpose::yes, Transpose::no, layer.outputs, layer.inputs, rows, 1, delta, input, 0,
              gradients + layer.weight);
    if (final) final(layer.weight);
    float* const earlier_delta = i == 0 ? input_delta : deltas_[i - 1].data();
    if (earlier_delta) {
      ops_.gemm(Transpose::no, Transpose::no, rows, layer.inputs, layer.outputs, 1, delta,
                parameters + layer.weight, 0, earlier_delta);
    }
  }
}

}  // namespace mlk::rt
