// The transformer of GPT-2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/floats.h"
#include "runtime/model/model.h"

namespace mlk::rt {

// GPT-2 (Radford et al. 2019): token and position embeddings, then blocks, then a last layer norm. The first
// half of a block is causal self-attention; the second half is a GELU layer four times as wide. Each half has
// a layer norm before it and a residual connection beside it. The logits are the products of the last norm's
// output with the token embeddings. As in GPT-2, dropout applies to the embeddings and to the output of each
// half of a block; unlike in GPT-2, it does not apply to the weights of attention. Tensors have the names and
// layouts of Hugging Face's GPT2LMHeadModel, so that it can read our checkpoints. Weights of layers are
// [inputs, outputs].
class Gpt final : public Model {
 public:
  // shape: one sequence of config.context tokens. `ops` must outlive the model.
  Gpt(const ModelConfig& config, const SampleShape& shape, std::uint64_t seed, kernels::Ops& ops);

  // Counts as the report on PaLM does (Chowdhery et al. 2022): for each token, 6 operations per parameter
  // (except the position embeddings), and 12 x layers x width x context operations for attention.
  double training_flops() const override;
  void initialise(std::uint64_t seed) override;
  // Returns the logits of `tokens` tokens of the batch, beginning with token `first`: [tokens, vocabulary].
  kernels::Floats logits(const Batch& batch, int first, int tokens);
  int context() const { return context_; }

 protected:
  void compute_gradients(const Batch& batch, const Final& final) override;
  float loss(const Batch& batch) override;
  Evaluation score(const Batch& batch) override;

 private:
  // A bias follows its weight in the tensors.
  struct Linear {
    std::size_t weight = 0;
    int inputs = 0, outputs = 0;
  };
  struct Block {
    std::size_t norm_1 = 0, norm_2 = 0;
    Linear qkv, projection, expansion, contraction;
  };
  // The values that the forward pass stores for the backward pass. Each token has a row of `width` numbers,
  // unless a comment gives another number.
  struct Normalised {
    float *out = nullptr, *mean = nullptr, *scale = nullptr;  // mean, scale: one number
  };
  struct Kept {
    float* in = nullptr;      // the residual stream before the block
    float* middle = nullptr;  // the residual stream before the block's second half
    Normalised norm_1, norm_2;
    float *qkv = nullptr, *attended = nullptr, *log_sums = nullptr;  // qkv: 3 * width; log_sums: heads
    float *expanded = nullptr, *activated = nullptr;                 // 4 * width, before GELU and after
    // LinearLayer::kept of each of the four layers.
    kernels::BFloat16 *by_qkv = nullptr, *by_projection = nullptr, *by_expansion = nullptr,
                      *by_contraction = nullptr;
  };

  const float* weight(std::size_t tensor) const { return parameters_.data() + tensors_[tensor].offset; }
  float* gradient(std::size_t tensor) { return gradients_.data() + tensors_[tensor].offset; }
  kernels::AttentionShape attention_shape() const;
  std::span<float> rows_of(float* x) const {
    return {x, static_cast<std::size_t>(rows_) * static_cast<std::size_t>(width_)};
  }
  // If the batch has dropout, sets `out` to x after dropout. Otherwise does nothing.
  void drop(std::uint64_t site, float* x, float* out);
  // Returns the gradient with respect to what was added to the residual stream at this site. If the site
  // drops numbers, this function writes the gradient to `place`.
  const float* branch_delta(std::uint64_t site, float* place);

  // Places everything in memory_ for a batch of `sequences` sequences.
  void place(std::size_t sequences);
  void forward(const Batch& batch);
  void block_forward(std::size_t i, float* out);
  // The layer whose outputs are the logits of these rows of tokens; logits_ has room for rows_of_logits_
  // rows. The layer's weight is that of the token embeddings.
  kernels::LinearLayer last_layer(int first, int rows) const;
  // Computes the logits of tokens [begin, end) part by part. After each part calls use(first, rows) with the
  // rows of its tokens.
  void over_logits(int begin, int end, const std::function<void(int first, int rows)>& use);

  // Leaves the gradient with respect to the last norm's output in delta_, and the losses of the parts in
  // losses_.
  void loss_backward(const Batch& batch);
  // The residual stream's gradient in stream_delta_ becomes the gradient before the block.
  void block_backward(std::size_t i, const Final& final);

  // layer() returns a linear layer with its input `x`, its weights and its kept memory, for the batch under
  // way. The functions after it return the four linear layers of a block.
  kernels::LinearLayer layer(const Linear& linear, const float* x, kernels::BFloat16* kept) const;
  kernels::LinearLayer qkv_layer(std::size_t block) const;
  kernels::LinearLayer projection_layer(std::size_t block) const;
  kernels::LinearLayer expansion_layer(std::size_t block) const;
  kernels::LinearLayer contraction_layer(std::size_t block) const;
  // For the last layer of one half of a block: out = stream + the layer's output.
  void add_to_stream(const kernels::LinearLayer& ending, std::uint64_t site, float* stream, float* out);
  void normalise(std::size_t norm, const float* x, const Normalised& kept);
  // Adds the gradient with respect to x to stream_delta_. The gradient with respect to the output is in
  // delta_.
  void normalise_backward(std::size_t norm, const float* x, const Normalised& kept);

  const int width_, heads_, context_, vocabulary_;
  std::vector<Block> blocks_;
  std::size_t last_norm_ = 0;

  // For the batch under way. memory_ grows to the largest batch and never shrinks.
  int rows_ = 0;  // the number of its tokens
  Dropout dropout_;
  int rows_of_logits_ = 0;                  // rows whose logits are computed together
  kernels::Buffer<float> memory_, losses_;  // losses_: the mean loss of each part of over_logits()
  std::vector<Kept> kept_;                  // of each block
  float* last_in_ = nullptr;
  Normalised last_;
  float *logits_ = nullptr, *stream_delta_ = nullptr, *delta_ = nullptr, *wide_delta_ = nullptr;
};

}  // namespace mlk::rt
