#include "runtime/model/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "runtime/base/random.h"
#include "runtime/model/optimizer.h"

TEST_SUITE_BEGIN("runtime/model/sampling");

using namespace mlk::rt;
namespace kernels = mlk::kernels;

namespace {

const ModelConfig gpt_of_letters{.type = ModelType::gpt, .layers = 1, .width = 16, .heads = 2, .context = 6};
constexpr int letters = 4;

const auto go_on = [] { return false; };

// A GPT that has learnt that 0 1 2 3 follow each other without end.
class Learnt {
 public:
  Learnt() {
    std::vector<std::int32_t> all;
    for (int i = 0; i < 4 * 6 + 1; ++i) all.push_back(i % letters);
    const std::span<const std::int32_t> tokens = all;
    const Batch batch{{}, tokens.subspan(1), 4, tokens.first(24)};
    const Optimizer optimizer({.type = OptimizerType::adam, .lr = 0.01}, 60);
    auto state = ops->allocate<float>(2 * model.parameters().size());
    for (std::uint64_t step = 0; step < 60; ++step) {
      model.loss_and_gradients(batch);
      optimizer.apply(*ops, model.parameters(), model.gradients(), state, {step, step});
    }
  }
  std::vector<std::int32_t> sample(const SampleConfig& config, std::uint64_t seed = 1) {
    return sample_tokens(model, 0, config, seed, go_on);
  }
  std::unique_ptr<kernels::Ops> ops = kernels::make_cpu_ops(1);
  Gpt model{gpt_of_letters, {6, letters, 6}, 1, *ops};
};

}  // namespace

TEST_CASE("tokens are drawn in proportion to exp(logit / temperature)") {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), -INFINITY, std::log(5.0f)};
  const auto share = [&](double temperature, int token) {
    constexpr int draws = 20000;
    int hits = 0;
    for (std::uint64_t i = 0; i < draws; ++i)
      hits += draw_token(logits, temperature, uniform(4, 0, i)) == token;
    return static_cast<double>(hits) / draws;
  };
  CHECK(share(1, 0) == doctest::Approx(1.0 / 8).epsilon(0.05));
  CHECK(share(1, 1) == doctest::Approx(2.0 / 8).epsilon(0.05));
  CHECK(share(1, 2) == 0);
  CHECK(share(1, 3) == doctest::Approx(5.0 / 8).epsilon(0.05));
  CHECK(share(0.5, 3) == doctest::Approx(25.0 / 30).epsilon(0.05));  // squares
  CHECK(share(1e-300, 3) == 1);
  CHECK(share(0, 3) == 1);
}

TEST_CASE(
    "draw_token() never draws a token of probability 0, even for the smallest or the largest random number") {
  const std::vector<float> logits = {-INFINITY, 1, 1, -INFINITY};
  CHECK(draw_token(logits, 1, 0) == 1);
  CHECK(draw_token(logits, 1, 0.49f) == 1);
  CHECK(draw_token(logits, 1, 0.51f) == 2);
  CHECK(draw_token(logits, 1, 1 - 0x1p-24f) == 2);
  CHECK(draw_token(logits, 0, 0.9f) == 1);
  CHECK(draw_token(std::vector<float>{7}, 1, 0.5f) == 0);
}

TEST_CASE("a model generates the sequence that it has learnt, also beyond the length of its context") {
  Learnt learnt;
  std::vector<std::int32_t> expected;
  for (int i = 1; i <= 30; ++i) expected.push_back(i % letters);
  CHECK(learnt.sample({.tokens = 30, .temperature = 0}) == expected);
}

TEST_CASE(
    "samples with the same seed have the same tokens, and a sample with another seed has other tokens") {
  Learnt learnt;
  const SampleConfig hot{.tokens = 60, .temperature = 100};  // all nearly as likely
  const auto first = learnt.sample(hot), again = learnt.sample(hot), other = learnt.sample(hot, 2);
  CHECK(first.size() == 60);
  CHECK(first == again);
  CHECK(first != other);
  for (int token = 0; token < letters; ++token) CHECK(std::ranges::count(first, token) > 3);
}

TEST_CASE("a sample ends when `stop` returns true") {
  Learnt learnt;
  int asked = 0;
  const auto tokens =
      sample_tokens(learnt.model, 0, {.tokens = 50, .temperature = 0}, 1, [&] { return ++asked > 3; });
  CHECK(tokens == std::vector<std::int32_t>{1, 2, 3});
}

TEST_CASE("logits() of some tokens gives the same numbers as logits() of all tokens") {
  Learnt learnt;
  const std::array<std::int32_t, 12> tokens = {0, 3, 2, 1, 1, 0, 2, 2, 3, 0, 1, 2};
  const Batch batch{{}, {}, 2, tokens};
  const auto all = learnt.model.logits(batch, 0, 12), some = learnt.model.logits(batch, 7, 3);
  REQUIRE(all.size() == 12 * letters);
  REQUIRE(some.size() == 3 * letters);
  for (std::size_t i = 0; i < some.size(); ++i)
    CHECK(some[i] == doctest::Approx(all[7 * letters + i]).epsilon(1e-5));
}

TEST_CASE("for texts, a sample begins after a newline; for GPT-2's tokens, after the end-of-text token") {
  CHECK(first_token({.format = DataFormat::text}) == 10);
  CHECK(first_token({.format = DataFormat::tokens, .vocabulary = 50257}) == 50256);
  CHECK(first_token({.format = DataFormat::tokens, .vocabulary = 50256}) == 0);
}

TEST_CASE("a sample is shown as one line of printable ASCII") {
  const std::vector<std::int32_t> tokens = {'a', ' ', '"', '\\', '\n', '\t', '\r', 0, 27, 127, 200, 'z'};
  CHECK(shown_tokens(tokens, DataFormat::text) == R"("a \"\\\n\t\x0d\x00\x1b\x7f\xc8z")");
  CHECK(shown_tokens(std::vector<std::int32_t>{50256, 0, 7}, DataFormat::tokens) == "50256 0 7");
  CHECK(shown_tokens({}, DataFormat::text) == "\"\"");
}
