#include "runtime/model/gpt.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/reference/reference_ops.h"
#include "runtime/base/random.h"
#include "runtime/data/sampler.h"
#include "runtime/data/token_dataset.h"
#include "runtime/model/optimizer.h"
#include "tests/unit/runtime/temporary_folder.h"
#include "tests/unit/runtime/tokens.h"

TEST_SUITE_BEGIN("runtime/model/gpt");

using namespace mlk::rt;
using namespace mlk::test;
namespace kernels = mlk::kernels;

namespace {

ModelConfig gpt_of(int layers, int width, int heads, int context) {
  return {.type = ModelType::gpt, .layers = layers, .width = width, .heads = heads, .context = context};
}

SampleShape sequences(int context, int vocabulary) { return {context, vocabulary, context}; }

struct RandomTokens {
  RandomTokens(std::size_t size, int context, int vocabulary) {
    for (std::size_t i = 0; i <= size * static_cast<std::size_t>(context); ++i)
      tokens.push_back(static_cast<int>(uniform(6, 0, i) * static_cast<float>(vocabulary)));
    const std::span<const std::int32_t> all = tokens;
    batch = {{}, all.subspan(1), size, all.first(all.size() - 1)};
  }
  std::vector<std::int32_t> tokens;
  Batch batch;
};

// Moves the weights away from the initial ones, whose gradients are too small to compare.
void disturb(Model& model) {
  const auto parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] += 0.3f * normal(9, 0, i);
}

}  // namespace

TEST_CASE("training_flops() counts the operations of a GPT's step as the report on PaLM does") {
  auto ops = kernels::make_reference_ops();
  const Gpt model(gpt_of(1, 4, 2, 3), sequences(3, 7), 1, *ops);
  // Token embeddings have 7 x 4 parameters, a block has 12 x 4 x 4 weights and 13 x 4 biases and norms, and
  // the last norm has 8.
  constexpr double parameters = 28 + 192 + 52 + 8;
  CHECK(model.training_flops() == 3 * (6 * parameters + 12 * 1 * 4 * 3));
}

TEST_CASE("tensors of a GPT have the names and shapes of Hugging Face's GPT-2") {
  auto ops = kernels::make_reference_ops();
  const Gpt model(gpt_of(2, 8, 2, 5), sequences(5, 11), 1, *ops);
  const auto& tensors = model.tensors();
  REQUIRE(tensors.size() == 2 + 2 * 12 + 2);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const TensorInfo& tensor : tensors) shapes[tensor.name] = tensor.shape;
  using Shape = std::vector<std::int64_t>;
  CHECK(shapes["transformer.wte.weight"] == Shape{11, 8});
  CHECK(shapes["transformer.wpe.weight"] == Shape{5, 8});
  CHECK(shapes["transformer.h.0.ln_1.weight"] == Shape{8});
  CHECK(shapes["transformer.h.1.attn.c_attn.weight"] == Shape{8, 24});
  CHECK(shapes["transformer.h.1.attn.c_attn.bias"] == Shape{24});
  CHECK(shapes["transformer.h.1.attn.c_proj.weight"] == Shape{8, 8});
  CHECK(shapes["transformer.h.1.ln_2.bias"] == Shape{8});
  CHECK(shapes["transformer.h.1.mlp.c_fc.weight"] == Shape{8, 32});
  CHECK(shapes["transformer.h.1.mlp.c_proj.weight"] == Shape{32, 8});
  CHECK(shapes["transformer.ln_f.bias"] == Shape{8});
}

TEST_CASE(
    "the number of parameters of a GPT follows the formula that gives 124 million for the small GPT-2") {
  // Counted without making the model: 50257 tokens, 1024 positions, 12 blocks of width 768.
  const std::int64_t width = 768, block = 12 * width * width + 13 * width;
  CHECK(50257 * width + 1024 * width + 12 * block + 2 * width == 124'439'808);
  auto ops = kernels::make_reference_ops();
  const Gpt model(gpt_of(3, 12, 2, 10), sequences(10, 50), 1, *ops);
  CHECK(model.parameters().size() == 50 * 12 + 10 * 12 + 3 * (12 * 12 * 12 + 13 * 12) + 2 * 12);
}

TEST_CASE("a new GPT has the initial weights of GPT-2, and gives all tokens about the same probability") {
  auto ops = kernels::make_cpu_ops();
  Gpt model(gpt_of(8, 64, 4, 16), sequences(16, 100), 3, *ops);
  for (const TensorInfo& tensor : model.tensors()) {
    CAPTURE(tensor.name);
    double sum = 0, squares = 0;
    for (const float x : model.parameters().subspan(tensor.offset, tensor.size)) {
      sum += static_cast<double>(x);
      squares += static_cast<double>(x) * static_cast<double>(x);
    }
    const auto size = static_cast<double>(tensor.size);
    if (tensor.name.ends_with(".bias")) {
      CHECK(squares == 0);
    } else if (tensor.shape.size() == 1) {
      CHECK(sum == size);
    } else {
      const double deviation = tensor.name.ends_with("c_proj.weight") ? 0.02 / 4 : 0.02;
      CHECK(std::sqrt(squares / size) == doctest::Approx(deviation).epsilon(0.05));
      CHECK(std::abs(sum / size) < 4 * deviation / std::sqrt(size));
    }
  }
  const RandomTokens data(4, 16, 100);
  CHECK(model.loss_and_gradients(data.batch) == doctest::Approx(std::log(100.0)).epsilon(0.01));
}

TEST_CASE("the gradient of a whole GPT is the finite difference of its loss, also with dropout") {
  for (const bool reference_without_dropout : {true, false}) {
    auto ops = reference_without_dropout ? kernels::make_reference_ops() : kernels::make_cpu_ops();
    CAPTURE(ops->name());
    RandomTokens data(3, 5, 7);
    if (!reference_without_dropout) data.batch.dropout = {0.3f, 2, 40};
    Gpt model(gpt_of(2, 6, 2, 5), sequences(5, 7), 3, *ops);
    disturb(model);
    model.loss_and_gradients(data.batch);
    const std::vector<float> gradients(model.gradients().begin(), model.gradients().end());
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      float& parameter = model.parameters()[i];
      const float before = parameter, h = 1.0f / 128;
      parameter = before + h;
      const double up = static_cast<double>(model.loss_and_gradients(data.batch));
      parameter = before - h;
      const double down = static_cast<double>(model.loss_and_gradients(data.batch));
      parameter = before;
      worst = std::max(worst, std::abs((up - down) / (2.0 * h) - static_cast<double>(gradients[i])));
      largest = std::max(largest, std::abs(static_cast<double>(gradients[i])));
    }
    CHECK(largest > 0.1);
    CHECK(worst < 2e-3);
  }
}

TEST_CASE(
    "gradients of a GPT become final from the last tensor to the first, and final gradients do not change") {
  auto ops = kernels::make_cpu_ops();
  const RandomTokens data(2, 6, 9);
  Gpt model(gpt_of(3, 8, 2, 6), sequences(6, 9), 3, *ops);
  disturb(model);
  std::vector<std::size_t> offsets;
  std::vector<float> seen(model.gradients().size());
  std::size_t seen_from = seen.size();
  model.loss_and_gradients(data.batch, [&](std::size_t from) {
    offsets.push_back(from);
    REQUIRE(from < seen_from);
    const auto part = model.gradients().subspan(from, seen_from - from);
    std::ranges::copy(part, seen.begin() + static_cast<std::ptrdiff_t>(from));
    seen_from = from;
  });
  CHECK(offsets.size() == 1 + 2 * 3 + 1);
  CHECK(offsets.back() == 0);
  CHECK(std::ranges::equal(seen, model.gradients()));
}

TEST_CASE("the loss of a batch of sequences is the mean of the losses of the single sequences") {
  auto ops = kernels::make_cpu_ops();
  Gpt model(gpt_of(1, 8, 2, 6), sequences(6, 9), 3, *ops);
  disturb(model);
  const RandomTokens data(3, 6, 9);
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Batch one{{}, data.batch.labels.subspan(6 * i, 6), 1, data.batch.tokens.subspan(6 * i, 6)};
    sum += static_cast<double>(model.loss_and_gradients(one));
  }
  CHECK(static_cast<double>(model.loss_and_gradients(data.batch)) == doctest::Approx(sum / 3).epsilon(1e-5));
}

TEST_CASE("the loss of a GPT has the same value and gradients if the logits are computed in parts") {
  auto ops = kernels::make_cpu_ops();
  // 2^24 logits are computed at once: here the logits of 83 of the 96 tokens.
  const int vocabulary = 200'000, context = 48;
  Gpt model(gpt_of(1, 4, 1, context), sequences(context, vocabulary), 3, *ops);
  disturb(model);
  const RandomTokens data(2, context, vocabulary);
  const auto loss_of = [&](const Batch& batch) {
    const float loss = model.loss_and_gradients(batch);
    return std::pair(static_cast<double>(loss),
                     std::vector<float>(model.gradients().begin(), model.gradients().end()));
  };
  const auto whole = loss_of(data.batch);
  const auto half = [&](std::size_t at) {
    return Batch{{}, data.batch.labels.subspan(at, context), 1, data.batch.tokens.subspan(at, context)};
  };
  const auto first = loss_of(half(0)), second = loss_of(half(context));
  CHECK(whole.first == doctest::Approx((first.first + second.first) / 2).epsilon(1e-5));
  double worst = 0;
  for (std::size_t i = 0; i < whole.second.size(); ++i)
    worst = std::max(
        worst, std::abs(static_cast<double>(whole.second[i]) -
                        (static_cast<double>(first.second[i]) + static_cast<double>(second.second[i])) / 2));
  CHECK(worst < 1e-5);
}

TEST_CASE("a small GPT learns to predict the bytes of a text better than a table of byte pairs can") {
  const TemporaryFolder folder;
  const std::string text = text_of_a_grammar(60'000);
  write_file(folder / "train.txt", text);
  const DataSplit data = load_text(folder.path().string(), 32);
  auto ops = kernels::make_cpu_ops();
  Gpt model(gpt_of(2, 32, 2, 32), data.train->shape(), 1, *ops);
#ifdef MLK_SANITIZED  // the first steps have all the faults that a sanitizer can find
  constexpr std::uint64_t steps = 30;
#else
  constexpr std::uint64_t steps = 300;
#endif
  constexpr std::uint64_t batch = 16;
  const Optimizer optimizer({.type = OptimizerType::adamw,
                             .lr = 0.005,
                             .schedule = {.type = ScheduleType::cosine, .warmup = 20, .final = 0.1}},
                            steps);
  std::vector<float> state(optimizer.slots() * model.parameters().size());
  BatchBuffer buffer(*ops);
  for (std::uint64_t step = 0; step < steps; ++step) {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t i = 0; i < batch; ++i)
      ids.push_back(sample_at(1, step * batch + i, data.train->size()));
    model.loss_and_gradients(data.train->gather(ids, buffer));
    optimizer.apply(*ops, model.parameters(), model.gradients(), state, {step, step});
  }
  const Evaluation after = model.evaluate(*data.held_out).value();
#ifdef MLK_SANITIZED
  CHECK(after.loss < std::log(256));
#else
  CHECK(after.loss < 0.8 * loss_of_pairs(text));
  CHECK(after.accuracy > 0.5);
#endif
}
