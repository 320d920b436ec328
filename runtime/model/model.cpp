#include "runtime/model/model.h"

#include <utility>

#include "runtime/model/mlp.h"

namespace mlk::rt {

Model::Model(std::vector<TensorInfo> tensors, kernels::Ops& ops) : ops_(ops), tensors_(std::move(tensors)) {
  std::size_t end = 0;
  for (TensorInfo& tensor : tensors_) {
    tensor.offset = end;
    tensor.size = 1;
    for (const std::int64_t n : tensor.shape) tensor.size *= static_cast<std::size_t>(n);
    end += tensor.size;
  }
  parameters_ = ops_.allocate<float>(end);
  gradients_ = ops_.allocate<float>(end);
}

std::unique_ptr<Model> make_model(const ModelConfig& config, int inputs, int classes, std::uint64_t seed,
                                  kernels::Ops& ops) {
  return std::make_unique<Mlp>(config, inputs, classes, seed, ops);
}

}  // namespace mlk::rt
