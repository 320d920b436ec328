#include "runtime/model/model.h"

#include <algorithm>
#include <utility>

#include "runtime/model/gpt.h"
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

std::optional<Evaluation> Model::evaluate(const Dataset& data, const std::function<bool()>& stop) {
  constexpr int most_samples = 256, most_labels = 2048;
  const auto labels = static_cast<std::uint64_t>(data.shape().labels);
  const std::uint64_t at_once = std::clamp<std::uint64_t>(most_labels / labels, 1, most_samples);
  BatchBuffer buffer(ops_);
  std::vector<std::uint64_t> ids;
  Evaluation sum;
  for (std::uint64_t first = 0; first < data.size(); first += at_once) {
    if (stop && stop()) return {};
    ids.clear();
    for (std::uint64_t id = first; id < std::min(first + at_once, data.size()); ++id) ids.push_back(id);
    const Evaluation part = score(data.gather(ids, buffer));
    sum.loss += part.loss;
    sum.accuracy += part.accuracy;
  }
  const auto count = static_cast<double>(data.size() * labels);
  return Evaluation{sum.loss / count, sum.accuracy / count};
}

std::unique_ptr<Model> make_model(const ModelConfig& config, const SampleShape& shape, std::uint64_t seed,
                                  kernels::Ops& ops) {
  if (config.type == ModelType::gpt) return std::make_unique<Gpt>(config, shape, seed, ops);
  return std::make_unique<Mlp>(config.hidden, shape, seed, ops);
}

}  // namespace mlk::rt
