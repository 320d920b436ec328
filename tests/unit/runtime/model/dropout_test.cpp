// Dropout in models, and the values on which it depends.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "runtime/base/random.h"
#include "runtime/model/model.h"

TEST_SUITE_BEGIN("runtime/model/dropout");

using namespace mlk::rt;
namespace kernels = mlk::kernels;

namespace {

constexpr int batch_size = 6, sequence_length = 4, sequence_tokens = 9;

// A model with six samples for it.
struct Sampled {
  explicit Sampled(ModelType type) {
    ModelConfig config{.type = type, .hidden = {20, 10}};
    SampleShape shape{16, 5};
    if (type == ModelType::cnn) {
      config.channels = {3};
      shape.image = {1, 4, 4, 1};
    }
    if (type == ModelType::gpt) {
      config = {.type = type, .layers = 2, .width = 8, .heads = 2, .context = sequence_length};
      shape = {sequence_length, sequence_tokens, sequence_length};
    }
    inputs_of_sample = static_cast<std::size_t>(shape.inputs);
    labels_of_sample = static_cast<std::size_t>(shape.labels);
    for (std::size_t i = 0; i < batch_size * inputs_of_sample; ++i) {
      inputs.push_back(uniform(5, 0, i));
      tokens.push_back(static_cast<int>(uniform(5, 1, i) * static_cast<float>(shape.classes)));
    }
    for (std::size_t i = 0; i < batch_size * labels_of_sample; ++i)
      labels.push_back(static_cast<int>(uniform(5, 2, i) * static_cast<float>(shape.classes)));
    model = make_model(config, shape, 3, *ops);
    for (std::size_t i = 0; i < model->parameters().size(); ++i)
      model->parameters()[i] += 0.2f * normal(9, 0, i);
  }
  Batch part(std::size_t first, std::size_t count, const Dropout& dropout) const {
    const auto of = [&](const auto& all, std::size_t each) {
      return std::span(all).subspan(first * each, count * each);
    };
    return {of(inputs, inputs_of_sample), of(labels, labels_of_sample), count, of(tokens, inputs_of_sample),
            dropout};
  }
  float loss(const Dropout& dropout) const { return model->loss_and_gradients(part(0, batch_size, dropout)); }
  std::vector<float> gradients() const { return {model->gradients().begin(), model->gradients().end()}; }

  std::unique_ptr<kernels::Ops> ops = kernels::make_cpu_ops(1);
  std::unique_ptr<Model> model;
  std::size_t inputs_of_sample = 0, labels_of_sample = 0;
  std::vector<float> inputs;
  std::vector<std::int32_t> labels, tokens;
};

constexpr ModelType all_types[] = {ModelType::mlp, ModelType::cnn, ModelType::gpt};

}  // namespace

TEST_CASE("the dropped numbers of a sample do not depend on its batch") {
  for (const ModelType type : all_types) {
    CAPTURE(static_cast<int>(type));
    const Sampled sampled(type);
    const float loss = sampled.loss({0.4f, 7, 100});
    const std::vector<float> whole = sampled.gradients();
    std::vector<float> sum(whole.size());
    float sum_of_losses = 0;
    for (std::size_t first = 0; first < batch_size; first += 2) {
      sum_of_losses += sampled.model->loss_and_gradients(sampled.part(first, 2, {0.4f, 7, 100 + first}));
      sampled.ops->add_scaled(sum, 1, sampled.model->gradients(), sum);
    }
    CHECK(sum_of_losses / 3 == doctest::Approx(loss).epsilon(1e-5));
    for (std::size_t i = 0; i < whole.size(); ++i) REQUIRE(std::abs(sum[i] / 3 - whole[i]) < 1e-5f);
  }
}

TEST_CASE("dropout drops other numbers for another seed, position or probability") {
  for (const ModelType type : all_types) {
    CAPTURE(static_cast<int>(type));
    const Sampled sampled(type);
    const float without = sampled.loss({}), loss = sampled.loss({0.4f, 7, 100});
    CHECK(loss != without);
    CHECK(sampled.loss({0.4f, 7, 100}) == loss);
    CHECK(sampled.loss({0.4f, 8, 100}) != loss);
    CHECK(sampled.loss({0.4f, 7, 106}) != loss);
    CHECK(sampled.loss({0.3f, 7, 100}) != loss);
    CHECK(sampled.loss({0, 7, 100}) == without);
  }
}

TEST_CASE(
    "over many positions of the batch, the mean loss with dropout is close to the loss without dropout") {
  for (const ModelType type : all_types) {
    CAPTURE(static_cast<int>(type));
    const Sampled sampled(type);
    const double without = static_cast<double>(sampled.loss({}));
    double sum = 0;
    constexpr int times = 300;
    for (std::uint64_t i = 0; i < times; ++i)
      sum += static_cast<double>(sampled.loss({0.05f, 7, i * batch_size}));
    CHECK(sum / times == doctest::Approx(without).epsilon(0.05));
  }
}
