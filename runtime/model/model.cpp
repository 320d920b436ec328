#include "runtime/model/model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/random.h"
#include "runtime/model/cnn.h"
#include "runtime/model/gpt.h"
#include "runtime/model/mlp.h"

namespace mlk::rt {
namespace {

// A key that differs for batches in other memory or of another size.
std::uint64_t key_of(const Batch& batch) {
  std::uint64_t key = batch.size;
  for (const void* part :
       {static_cast<const void*>(batch.inputs.data()), static_cast<const void*>(batch.labels.data()),
        static_cast<const void*>(batch.tokens.data())})
    key = mix(key ^ reinterpret_cast<std::uintptr_t>(part));
  return key;
}

}  // namespace

Model::Model(std::vector<TensorInfo> tensors, kernels::Ops& ops)
    : ops_(ops), tensors_(std::move(tensors)), evaluation_batch_(ops) {
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

void Model::allocate_rounded() {
  if (ops_.uses_rounded()) rounded_ = ops_.allocate<kernels::BFloat16>(parameters_.size());
}

void Model::renew_rounded() {
  if (!rounded_.empty() && !rounded_is_new_) ops_.round(parameters_, rounded_.data());
  rounded_is_new_ = true;
}

// He initialisation (He et al. 2015): with the variance 2 / inputs, weights keep the scale of activations
// through ReLUs. The weights are uniform, because that needs only operations that are exact everywhere.
// Biases start at 0.
void Model::initialise(std::uint64_t seed) {
  ops_.scale(0, parameters_, parameters_);
  std::uint64_t stream = 0;
  for (const TensorInfo& tensor : tensors_) {
    if (tensor.shape.size() == 1) continue;
    const auto outputs = static_cast<std::size_t>(tensor.shape.front());
    const std::size_t inputs = tensor.size / outputs;
    const float bound = std::sqrt(6.0f / static_cast<float>(inputs));
    const auto weights = parameters().subspan(tensor.offset, tensor.size), place = ops_.place(weights);
    for (std::size_t k = 0; k < tensor.size; ++k) place[k] = (2 * uniform(seed, stream, k) - 1) * bound;
    ops_.write(place, weights);
    ++stream;
  }
}

float Model::loss_and_gradients(const Batch& batch, const Final& final) {
  renew_rounded();
  // A replay would not call `final`, and would drop the same numbers in each batch.
  if (final || batch.dropout.probability > 0) {
    compute_gradients(batch, final);
  } else {
    ops_.repeat(key_of(batch), [&] { compute_gradients(batch, {}); });
  }
  return loss(batch);
}

std::optional<Evaluation> Model::evaluate(const Dataset& data, const std::function<bool()>& stop) {
  constexpr int most_samples = 256, most_labels = 2048;
  const auto labels = static_cast<std::uint64_t>(data.shape().labels);
  const std::uint64_t at_once = std::clamp<std::uint64_t>(most_labels / labels, 1, most_samples);
  std::vector<std::uint64_t> ids;
  Evaluation sum;
  renew_rounded();
  for (std::uint64_t first = 0; first < data.size(); first += at_once) {
    if (stop && stop()) return {};
    ids.clear();
    for (std::uint64_t id = first; id < std::min(first + at_once, data.size()); ++id) ids.push_back(id);
    const Evaluation part = score(data.gather(ids, evaluation_batch_));
    sum.loss += part.loss;
    sum.accuracy += part.accuracy;
  }
  const auto count = static_cast<double>(data.size() * labels);
  return Evaluation{sum.loss / count, sum.accuracy / count};
}

std::unique_ptr<Model> make_model(const ModelConfig& config, const SampleShape& shape, std::uint64_t seed,
                                  kernels::Ops& ops) {
  if (config.type == ModelType::cnn) return std::make_unique<Cnn>(config, shape, seed, ops);
  if (config.type == ModelType::gpt) return std::make_unique<Gpt>(config, shape, seed, ops);
  return std::make_unique<Mlp>(config.hidden, shape, seed, ops);
}

}  // namespace mlk::rt
