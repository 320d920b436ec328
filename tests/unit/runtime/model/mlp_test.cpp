#include "runtime/model/mlp.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops.h"
#include "kernels/reference/reference_ops.h"
#include "runtime/base/random.h"
#include "runtime/data/image_dataset.h"
#include "runtime/data/sampler.h"
#include "runtime/model/optimizer.h"
#include "tests/unit/runtime/idx_files.h"

TEST_SUITE_BEGIN("runtime/model/mlp");

using namespace mlk::rt;
using namespace mlk::test;
namespace kernels = mlk::kernels;

namespace {

struct RandomBatch {
  RandomBatch(std::size_t size, int width, int classes) {
    for (std::size_t i = 0; i < size * static_cast<std::size_t>(width); ++i)
      inputs.push_back(uniform(5, 0, i));
    for (std::size_t i = 0; i < size; ++i) {
      labels.push_back(static_cast<int>(uniform(5, 1, i) * static_cast<float>(classes)));
    }
    batch = {inputs, labels, size};
  }
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  Batch batch;
};

}  // namespace

TEST_CASE("the tensors of an mlp are adjacent in memory and have the names of PyTorch's layers") {
  auto ops = kernels::make_reference_ops();
  Mlp model({5, 3}, {7, 4}, 1, *ops);
  REQUIRE(model.tensors().size() == 6);
  CHECK(model.tensors()[0] == TensorInfo{"layers.0.weight", {5, 7}, 0, 35});
  CHECK(model.tensors()[1] == TensorInfo{"layers.0.bias", {5}, 35, 5});
  CHECK(model.tensors()[2] == TensorInfo{"layers.1.weight", {3, 5}, 40, 15});
  CHECK(model.tensors()[5] == TensorInfo{"layers.2.bias", {4}, 70, 4});
  CHECK(model.parameters().size() == 74);
  CHECK(model.gradients().size() == 74);
}

TEST_CASE("the gradient of a whole mlp is the finite difference of its loss, also with dropout") {
  for (auto make : {kernels::make_reference_ops, +[] { return kernels::make_cpu_ops(); }}) {
    for (const std::vector<int>& hidden : {std::vector<int>{}, {9}, {9, 6}}) {
      auto ops = make();
      CAPTURE(ops->name());
      CAPTURE(hidden.size());
      RandomBatch data(13, 7, 5);
      if (hidden.size() == 2) data.batch.dropout = {0.3f, 2, 40};
      Mlp model(hidden, {7, 5}, 3, *ops);
      // Moves the biases away from 0, where a rectifier would hide an error in their gradient.
      for (std::size_t i = 0; i < model.parameters().size(); ++i)
        model.parameters()[i] += 0.1f * uniform(4, 0, i);
      model.loss_and_gradients(data.batch);
      const std::vector<float> gradients(model.gradients().begin(), model.gradients().end());
      double worst = 0, largest = 0;
      std::size_t kinks = 0;
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        float& parameter = model.parameters()[i];
        const float before = parameter, h = 1.0f / 1024;
        const double middle = static_cast<double>(model.loss_and_gradients(data.batch));
        parameter = before + h;
        const double up = static_cast<double>(model.loss_and_gradients(data.batch));
        parameter = before - h;
        const double down = static_cast<double>(model.loss_and_gradients(data.batch));
        parameter = before;
        // Where a rectifier switches within h there is no derivative to compare with.
        if (std::abs(up - 2 * middle + down) / h > 2e-3) {
          ++kinks;
          continue;
        }
        const double apart = std::abs((up - down) / (2.0 * h) - gradients[i]);
        worst = std::isnan(apart) ? HUGE_VAL : std::max(worst, apart);
        largest = std::max(largest, std::abs(static_cast<double>(gradients[i])));
      }
      CHECK(kinks * 10 < gradients.size());
      CHECK(largest > 0.01);
      CHECK(worst < 1e-3);  // float32: a loss of about 2 has an error of 1e-7, divided by 2h
    }
  }
}

TEST_CASE(
    "gradients of an mlp become final from the last layer to the first, and final gradients do not change") {
  auto ops = kernels::make_reference_ops();
  const RandomBatch data(13, 7, 5);
  Mlp model({9, 6}, {7, 5}, 3, *ops);
  std::vector<std::size_t> told;
  std::vector<float> seen(model.gradients().size());
  model.loss_and_gradients(data.batch, [&](std::size_t from) {
    const std::size_t before = told.empty() ? seen.size() : told.back();
    std::copy_n(model.gradients().data() + from, before - from, seen.data() + from);
    told.push_back(from);
  });
  CHECK(told == std::vector<std::size_t>{model.tensors()[4].offset, model.tensors()[2].offset, 0});
  CHECK(std::ranges::equal(seen, model.gradients()));
}

TEST_CASE("the gradients of a batch overwrite all previous gradients, also those of a larger batch") {
  auto ops = kernels::make_cpu_ops();
  const RandomBatch large(32, 7, 5), small(3, 7, 5);
  Mlp model({9}, {7, 5}, 3, *ops), fresh({9}, {7, 5}, 3, *ops);
  model.loss_and_gradients(large.batch);
  const float loss = model.loss_and_gradients(small.batch);
  CHECK(loss == fresh.loss_and_gradients(small.batch));
  CHECK(std::ranges::equal(model.gradients(), fresh.gradients()));
}

TEST_CASE("the mean of the gradients of equal parts of a batch is the gradient of the whole batch") {
  // sync and allreduce depend on this.
  auto ops = kernels::make_cpu_ops();
  const RandomBatch data(24, 7, 5);
  Mlp model({9}, {7, 5}, 3, *ops);
  model.loss_and_gradients(data.batch);
  const std::vector<float> whole(model.gradients().begin(), model.gradients().end());
  std::vector<float> sum(whole.size());
  for (std::size_t part = 0; part < 3; ++part) {
    model.loss_and_gradients(
        {data.batch.inputs.subspan(part * 8 * 7, 8 * 7), data.batch.labels.subspan(part * 8, 8), 8});
    ops->add_scaled(sum, 1, model.gradients(), sum);
  }
  for (std::size_t i = 0; i < whole.size(); ++i) REQUIRE(std::abs(sum[i] / 3 - whole[i]) < 1e-6f);
}

TEST_CASE("initial parameters depend only on the seed, and are the same on every machine") {
  auto ops = kernels::make_reference_ops();
  Mlp a({8}, {6, 3}, 1, *ops), same({8}, {6, 3}, 1, *ops), other({8}, {6, 3}, 2, *ops);
  CHECK(std::ranges::equal(a.parameters(), same.parameters()));
  CHECK_FALSE(std::ranges::equal(a.parameters(), other.parameters()));
  // Pinned: workers of one run may be of different kinds, and must start from the same bits.
  CHECK(a.parameters()[0] == 0x1.8c501p-2f);
  CHECK(a.parameters()[56] == 0x1.26bdb2p-1f);
  CHECK(a.parameters()[48] == 0);  // the first bias
  CHECK_FALSE(a.parameters()[0] == a.parameters()[56]);
}

TEST_CASE("initial weights have the variance of He initialisation") {
  auto ops = kernels::make_reference_ops();
  Mlp model({400}, {300, 10}, 7, *ops);
  double sum = 0, squares = 0;
  const auto weights = model.parameters().first(300 * 400);
  for (float w : weights) {
    sum += static_cast<double>(w);
    squares += static_cast<double>(w) * static_cast<double>(w);
  }
  CHECK(sum / 120'000 == doctest::Approx(0).scale(1).epsilon(0.001));
  CHECK(squares / 120'000 == doctest::Approx(2.0 / 300).epsilon(0.02));
}

TEST_CASE("an evaluation covers all samples, even if they do not fit into one batch") {
  auto ops = kernels::make_cpu_ops();
  // 600 samples of one pixel. Without hidden layers and with the weights below, class 1 wins where the
  // pixel is bright.
  std::vector<std::uint8_t> pixels(600), labels(600);
  for (std::size_t i = 0; i < 600; ++i) {
    pixels[i] = i % 2 == 0 ? 255 : 0;
    labels[i] = i % 2 == 0 ? 1 : 0;
    if (i % 10 == 0) labels[i] = 0;  // 60 of them are wrong
  }
  const ImageDataset data(pixels, labels, {1, 2}, 1.0f / 255);
  Mlp model({}, {1, 2}, 1, *ops);
  const std::vector<float> parameters = {0, 4, 2, 0};
  std::ranges::copy(parameters, model.parameters().begin());
  const Evaluation evaluation = model.evaluate(data).value();
  CHECK(evaluation.accuracy == doctest::Approx(0.9));
  // In each sample the two logits differ by 2.
  CHECK(evaluation.loss ==
        doctest::Approx(0.9 * std::log1p(std::exp(-2.0)) + 0.1 * std::log1p(std::exp(2.0))));
}

TEST_CASE(
    "an evaluation calls `stop` before each part of the samples, and has no result if `stop` returns true") {
  auto ops = kernels::make_cpu_ops();
  const ImageDataset data(std::vector<std::uint8_t>(513, 1), std::vector<std::uint8_t>(513, 0), {1, 2}, 1);
  Mlp model({}, {1, 2}, 1, *ops);
  const Evaluation whole = model.evaluate(data).value();
  for (const int stop_at : {1, 2, 3, 4}) {
    int asked = 0;
    const auto evaluation = model.evaluate(data, [&] { return ++asked == stop_at; });
    CHECK(asked == std::min(stop_at, 3));  // 256 samples, as many again, and the last one
    CHECK(evaluation.has_value() == (stop_at == 4));
    if (evaluation) CHECK(evaluation->loss == whole.loss);
    if (evaluation) CHECK(evaluation->accuracy == whole.accuracy);
  }
}

TEST_CASE(
    "an mlp learns with the operations of the reference, with those of the processor, and with bfloat16") {
  TemporaryFolder folder;
  write_learnable(folder.path());
  const ImageSplit data = load_idx(folder.path().string());
  for (auto make : {kernels::make_reference_ops, +[] { return kernels::make_cpu_ops(); },
                    +[] { return kernels::make_cpu_ops(1, kernels::Precision::bfloat16); }}) {
    auto ops = make();
    CAPTURE(ops->name());
    Mlp model({8}, {16, 3}, 1, *ops);
    const Optimizer optimizer({.lr = 0.1, .momentum = 0.9}, 200);
    std::vector<float> momentum(model.parameters().size());
    BatchBuffer buffer(*ops);
    const double before = model.evaluate(data.held_out)->loss;
    for (std::uint64_t position = 0; position < 200 * 16; position += 16) {
      std::vector<std::uint64_t> ids;
      for (std::uint64_t i = 0; i < 16; ++i) ids.push_back(sample_at(1, position + i, data.train.size()));
      model.loss_and_gradients(data.train.gather(ids, buffer));
      optimizer.apply(*ops, model.parameters(), model.gradients(), momentum, {});
    }
    const Evaluation after = model.evaluate(data.held_out).value();
    CHECK(after.loss < before / 10);
    CHECK(after.accuracy == 1);
  }
}
