#include "runtime/model/mlp.h"

namespace mlk::rt {
namespace {

std::vector<TensorInfo> tensors_between(const DenseLayers::Widths& widths) {
  std::vector<TensorInfo> tensors;
  DenseLayers::name_tensors(widths, tensors);
  return tensors;
}

}  // namespace

Mlp::Mlp(const std::vector<int>& hidden, const SampleShape& shape, std::uint64_t seed, kernels::Ops& ops)
    : Model(tensors_between(DenseLayers::widths(shape.inputs, hidden, shape.classes)), ops),
      layers_(DenseLayers::widths(shape.inputs, hidden, shape.classes), tensors_, 0, ops) {
  Model::initialise(seed);
}

void Mlp::compute_gradients(const Batch& batch, const Final& final) {
  const int rows = static_cast<int>(batch.size);
  layers_.forward(rows, batch.inputs.data(), parameters_.data(), batch.dropout);
  layers_.backward(rows, batch.inputs.data(), batch.labels.data(), parameters_.data(), gradients_.data(),
                   final, batch.dropout);
}

Evaluation Mlp::score(const Batch& batch) {
  const int rows = static_cast<int>(batch.size);
  layers_.forward(rows, batch.inputs.data(), parameters_.data());
  return layers_.score(rows, batch.labels.data());
}

}  // namespace mlk::rt
