// The forward and the backward pass of GPT-2, by the operations of kernels/.
#include "runtime/model/gpt.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "runtime/base/random.h"

namespace mlk::rt {

using kernels::Transpose;

namespace {

constexpr std::size_t tokens_tensor = 0, positions_tensor = 1, first_block = 2, tensors_of_block = 12;
constexpr int expansion_factor = 4;
// Sites of dropout.
constexpr std::uint64_t at_embeddings = 0;
constexpr std::uint64_t after_attention(std::size_t block) { return 1 + 2 * block; }
constexpr std::uint64_t after_layers(std::size_t block) { return 2 + 2 * block; }

std::vector<TensorInfo> tensors_of(const ModelConfig& config, int vocabulary) {
  const std::int64_t width = config.width;
  std::vector<TensorInfo> tensors = {{"transformer.wte.weight", {vocabulary, width}},
                                     {"transformer.wpe.weight", {config.context, width}}};
  const auto norm = [&](const std::string& name) {
    tensors.push_back({name + ".weight", {width}});
    tensors.push_back({name + ".bias", {width}});
  };
  const auto linear = [&](const std::string& name, std::int64_t inputs, std::int64_t outputs) {
    tensors.push_back({name + ".weight", {inputs, outputs}});
    tensors.push_back({name + ".bias", {outputs}});
  };
  for (int i = 0; i < config.layers; ++i) {
    const std::string block = "transformer.h." + std::to_string(i) + ".";
    norm(block + "ln_1");
    linear(block + "attn.c_attn", width, 3 * width);
    linear(block + "attn.c_proj", width, width);
    norm(block + "ln_2");
    linear(block + "mlp.c_fc", width, expansion_factor * width);
    linear(block + "mlp.c_proj", expansion_factor * width, width);
  }
  norm("transformer.ln_f");
  return tensors;
}

// Hands out parts of one block of memory, each at the beginning of a cache line. Without memory the object
// only adds up the sizes.
class Places {
 public:
  explicit Places(float* memory) : memory_(memory) {}

  float* allocate(std::size_t size) {
    constexpr std::size_t line = 16;
    float* const place = memory_ ? memory_ + taken_ : nullptr;
    taken_ += (size + line - 1) / line * line;
    return place;
  }
  std::size_t allocated() const { return taken_; }

 private:
  float* memory_;
  std::size_t taken_ = 0;
};

}  // namespace

Gpt::Gpt(const ModelConfig& config, const SampleShape& shape, std::uint64_t seed, kernels::Ops& ops)
    : Model(tensors_of(config, shape.classes), ops),
      width_(config.width),
      heads_(config.heads),
      context_(config.context),
      vocabulary_(shape.classes) {
  const int wide = expansion_factor * width_;
  for (std::size_t i = 0; i < static_cast<std::size_t>(config.layers); ++i) {
    const std::size_t at = first_block + i * tensors_of_block;
    blocks_.push_back({.norm_1 = at,
                       .norm_2 = at + 6,
                       .qkv = {at + 2, width_, 3 * width_},
                       .projection = {at + 4, width_, width_},
                       .expansion = {at + 8, width_, wide},
                       .contraction = {at + 10, wide, width_}});
  }
  last_norm_ = first_block + blocks_.size() * tensors_of_block;
  kept_.resize(blocks_.size());
  allocate_rounded();
  Gpt::initialise(seed);
}

// Weights are normal with a standard deviation of 0.02. In layers that add to the residual stream, they are
// divided by the root of the number of these layers, so that the stream's variance does not grow with the
// depth. The weights of norms start at 1, biases at 0.
void Gpt::initialise(std::uint64_t seed) {
  ops_.scale(0, parameters_, parameters_);
  const float smaller = 1 / std::sqrt(2 * static_cast<float>(blocks_.size()));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorInfo& tensor = tensors_[i];
    if (tensor.name.ends_with(".bias")) continue;
    const bool norm = tensor.shape.size() == 1, adds = tensor.name.ends_with("c_proj.weight");
    const float deviation = adds ? 0.02f * smaller : 0.02f;
    const auto values = parameters().subspan(tensor.offset, tensor.size), place = ops_.place(values);
    for (std::size_t k = 0; k < tensor.size; ++k) place[k] = norm ? 1 : deviation * normal(seed, i, k);
    ops_.write(place, values);
  }
}

double Gpt::training_flops() const {
  const double width = width_, context = context_;
  const double multiplied = static_cast<double>(parameters_.size()) - context * width;  // all but positions
  return context * (6 * multiplied + 12 * static_cast<double>(blocks_.size()) * width * context);
}

kernels::AttentionShape Gpt::attention_shape() const {
  return {rows_ / context_, context_, heads_, width_ / heads_};
}

void Gpt::place(std::size_t sequences) {
  const auto most_logits = static_cast<int>(ops_.most_at_once());
  rows_ = static_cast<int>(sequences) * context_;
  const auto rows = static_cast<std::size_t>(rows_), narrow = rows * static_cast<std::size_t>(width_);
  rows_of_logits_ = std::clamp(most_logits / vocabulary_, 1, std::max(1, rows_));
  const auto place_all = [&](Places places) {
    const auto normalised = [&] {
      return Normalised{places.allocate(narrow), places.allocate(rows), places.allocate(rows)};
    };
    for (Kept& kept : kept_) {
      kept.in = places.allocate(narrow);
      kept.norm_1 = normalised();
      kept.qkv = places.allocate(3 * narrow);
      kept.attended = places.allocate(narrow);
      kept.log_sums = places.allocate(rows * static_cast<std::size_t>(heads_));
      kept.middle = places.allocate(narrow);
      kept.norm_2 = normalised();
      kept.expanded = places.allocate(expansion_factor * narrow);
      kept.activated = places.allocate(expansion_factor * narrow);
      const auto by_layer = [&](int inputs) {
        const std::size_t numbers = ops_.kept_size(rows_, inputs);
        float* const memory = places.allocate((numbers + 1) / 2);
        return numbers == 0 ? nullptr : reinterpret_cast<kernels::BFloat16*>(memory);
      };
      for (auto* layer : {&kept.by_qkv, &kept.by_projection, &kept.by_expansion}) *layer = by_layer(width_);
      kept.by_contraction = by_layer(expansion_factor * width_);
    }
    last_in_ = places.allocate(narrow);
    last_ = normalised();
    logits_ =
        places.allocate(static_cast<std::size_t>(rows_of_logits_) * static_cast<std::size_t>(vocabulary_));
    stream_delta_ = places.allocate(narrow);
    delta_ = places.allocate(narrow);
    wide_delta_ = places.allocate(expansion_factor * narrow);
    return places.allocated();
  };
  const std::size_t size = place_all(Places(nullptr));
  if (memory_.size() < size) memory_ = ops_.allocate<float>(size);
  place_all(Places(memory_.data()));
}

kernels::LinearLayer Gpt::layer(const Linear& linear, const float* x, kernels::BFloat16* kept) const {
  return {.rows = rows_,
          .inputs = linear.inputs,
          .outputs = linear.outputs,
          .x = x,
          .weight = weight(linear.weight),
          .bias = weight(linear.weight + 1),
          .rounded = rounded(tensors_[linear.weight].offset),
          .kept = kept};
}
kernels::LinearLayer Gpt::qkv_layer(std::size_t block) const {
  return layer(blocks_[block].qkv, kept_[block].norm_1.out, kept_[block].by_qkv);
}
kernels::LinearLayer Gpt::projection_layer(std::size_t block) const {
  return layer(blocks_[block].projection, kept_[block].attended, kept_[block].by_projection);
}
kernels::LinearLayer Gpt::expansion_layer(std::size_t block) const {
  return layer(blocks_[block].expansion, kept_[block].norm_2.out, kept_[block].by_expansion);
}
kernels::LinearLayer Gpt::contraction_layer(std::size_t block) const {
  return layer(blocks_[block].contraction, kept_[block].activated, kept_[block].by_contraction);
}

void Gpt::add_to_stream(const kernels::LinearLayer& ending, std::uint64_t site, float* stream, float* out) {
  const bool drops = dropout_.probability > 0;
  ops_.linear(ending, drops ? nullptr : stream, out);
  if (!drops) return;
  drop(site, out, out);
  ops_.add_scaled(rows_of(stream), 1, rows_of(out), rows_of(out));
}

void Gpt::normalise(std::size_t norm, const float* x, const Normalised& kept) {
  ops_.layer_norm(rows_, width_, x, weight(norm), weight(norm + 1), kept.out, kept.mean, kept.scale);
}

void Gpt::normalise_backward(std::size_t norm, const float* x, const Normalised& kept) {
  ops_.layer_norm_backward(rows_, width_, x, weight(norm), kept.mean, kept.scale, delta_, stream_delta_,
                           gradient(norm), gradient(norm + 1));
}

void Gpt::drop(std::uint64_t site, float* x, float* out) {
  if (dropout_.probability == 0) return;
  const auto of_sample = static_cast<std::size_t>(context_) * static_cast<std::size_t>(width_);
  ops_.dropout(dropout_.mask(site, of_sample), rows_of(x), rows_of(out));
}

const float* Gpt::branch_delta(std::uint64_t site, float* place) {
  if (dropout_.probability == 0) return stream_delta_;
  drop(site, stream_delta_, place);
  return place;
}

void Gpt::block_forward(std::size_t i, float* out) {
  const Block& block = blocks_[i];
  const Kept& kept = kept_[i];
  normalise(block.norm_1, kept.in, kept.norm_1);
  ops_.linear(qkv_layer(i), nullptr, kept.qkv);
  ops_.attention(attention_shape(), kept.qkv, kept.attended, kept.log_sums);
  add_to_stream(projection_layer(i), after_attention(i), kept.in, kept.middle);

  normalise(block.norm_2, kept.middle, kept.norm_2);
  ops_.linear_gelu(expansion_layer(i), kept.expanded, kept.activated);
  add_to_stream(contraction_layer(i), after_layers(i), kept.middle, out);
}

void Gpt::forward(const Batch& batch) {
  place(batch.size);
  dropout_ = batch.dropout;
  float* const first = kept_.front().in;
  ops_.embed(rows_, context_, width_, batch.tokens.data(), weight(tokens_tensor), weight(positions_tensor),
             first);
  drop(at_embeddings, first, first);
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    block_forward(i, i + 1 < blocks_.size() ? kept_[i + 1].in : last_in_);
  normalise(last_norm_, last_in_, last_);
}

kernels::LinearLayer Gpt::last_layer(int first, int rows) const {
  return {.rows = rows,
          .inputs = width_,
          .outputs = vocabulary_,
          .x = last_.out + static_cast<std::ptrdiff_t>(first) * width_,
          .weight = weight(tokens_tensor),
          .stored = Transpose::yes,
          .rounded = rounded(tensors_[tokens_tensor].offset)};
}

void Gpt::over_logits(int begin, int end, const std::function<void(int first, int rows)>& use) {
  for (int first = begin; first < end; first += rows_of_logits_) {
    const int rows = std::min(rows_of_logits_, end - first);
    ops_.linear(last_layer(first, rows), nullptr, logits_);
    use(first, rows);
  }
}

kernels::Floats Gpt::logits(const Batch& batch, int first, int tokens) {
  renew_rounded();
  forward(batch);
  kernels::Floats all;
  over_logits(first, first + tokens, [&](int, int rows) {
    const auto part =
        ops_.read({logits_, static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocabulary_)});
    all.insert(all.end(), part.begin(), part.end());
  });
  return all;
}

Evaluation Gpt::score(const Batch& batch) {
  forward(batch);
  Evaluation sum;
  over_logits(0, rows_, [&](int first, int rows) {
    const std::int32_t* labels = batch.labels.data() + first;
    sum.loss += static_cast<double>(ops_.softmax_cross_entropy(rows, vocabulary_, logits_, labels)) * rows;
    sum.accuracy += static_cast<double>(ops_.count_correct(rows, vocabulary_, logits_, labels));
  });
  return sum;
}

void Gpt::loss_backward(const Batch& batch) {
  const auto parts = static_cast<std::size_t>((rows_ + rows_of_logits_ - 1) / rows_of_logits_);
  if (losses_.size() < parts) losses_ = ops_.allocate<float>(parts);
  over_logits(0, rows_, [&](int first, int rows) {
    const float share = static_cast<float>(rows) / static_cast<float>(rows_);
    ops_.softmax_cross_entropy_backward(rows, vocabulary_, logits_, batch.labels.data() + first, logits_,
                                        losses_.data() + first / rows_of_logits_);
    ops_.linear_backward(last_layer(first, rows), logits_,
                         {.weight = gradient(tokens_tensor),
                          .x = delta_ + static_cast<std::ptrdiff_t>(first) * width_,
                          .factor = share,
                          .adds = first > 0});
  });
}

float Gpt::loss(const Batch& batch) {
  place(batch.size);  // sets the sizes again, because an evaluation in between may have changed them
  const auto losses = ops_.read(losses_);
  double sum = 0;
  for (int first = 0; first < rows_; first += rows_of_logits_) {
    const double share =
        static_cast<double>(std::min(rows_of_logits_, rows_ - first)) / static_cast<double>(rows_);
    sum += share * static_cast<double>(losses[static_cast<std::size_t>(first / rows_of_logits_)]);
  }
  return static_cast<float>(sum);
}

void Gpt::block_backward(std::size_t i, const Final& final) {
  const Block& block = blocks_[i];
  const Kept& kept = kept_[i];
  const auto all_from = [&](std::size_t tensor) {
    if (final) final(tensors_[tensor].offset);
  };
  const auto to = [&](const Linear& linear, float* x) {
    return kernels::LinearGradients{
        .weight = gradient(linear.weight), .bias = gradient(linear.weight + 1), .x = x};
  };
  auto through_gelu = to(block.contraction, wide_delta_), to_norm = to(block.expansion, delta_);
  through_gelu.sums = kept.expanded;
  through_gelu.sums_bias = std::exchange(to_norm.bias, nullptr);
  ops_.linear_backward(contraction_layer(i), branch_delta(after_layers(i), delta_), through_gelu);
  ops_.linear_backward(expansion_layer(i), wide_delta_, to_norm);
  normalise_backward(block.norm_2, kept.middle, kept.norm_2);
  all_from(block.norm_2);

  ops_.linear_backward(projection_layer(i), branch_delta(after_attention(i), wide_delta_),
                       to(block.projection, delta_));
  ops_.attention_backward(attention_shape(), kept.qkv, kept.attended, kept.log_sums, delta_, wide_delta_);
  ops_.linear_backward(qkv_layer(i), wide_delta_, to(block.qkv, delta_));
  normalise_backward(block.norm_1, kept.in, kept.norm_1);
  all_from(block.norm_1);
}

void Gpt::compute_gradients(const Batch& batch, const Final& final) {
  forward(batch);
  loss_backward(batch);
  ops_.scale(0, rows_of(stream_delta_), rows_of(stream_delta_));
  normalise_backward(last_norm_, last_in_, last_);
  if (final) final(tensors_[last_norm_].offset);
  for (std::size_t i = blocks_.size(); i-- > 0;) block_backward(i, final);
  drop(at_embeddings, stream_delta_, stream_delta_);
  ops_.embed_backward(rows_, context_, width_, batch.tokens.data(), stream_delta_, gradient(tokens_tensor),
                      gradient(positions_tensor));
  if (final) final(0);
}

}  // namespace mlk::rt
