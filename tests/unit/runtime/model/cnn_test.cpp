#include "runtime/model/cnn.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/reference/reference_ops.h"
#include "runtime/base/exit_code.h"
#include "runtime/base/random.h"
#include "runtime/data/image_dataset.h"
#include "runtime/data/sampler.h"
#include "runtime/model/optimizer.h"
#include "tests/unit/paths.h"

TEST_SUITE_BEGIN("runtime/model/cnn");

using namespace mlk::rt;
using namespace mlk::test;
namespace kernels = mlk::kernels;

namespace {

ModelConfig cnn_of(std::vector<int> channels, std::vector<int> hidden) {
  return {.type = ModelType::cnn, .hidden = std::move(hidden), .channels = std::move(channels)};
}

SampleShape images(int height, int width, int channels, int classes) {
  return {height * width * channels, classes, 1, {1, height, width, channels}};
}

struct RandomImages {
  RandomImages(std::size_t size, const SampleShape& shape) {
    for (std::size_t i = 0; i < size * static_cast<std::size_t>(shape.inputs); ++i)
      pixels.push_back(uniform(5, 0, i));
    for (std::size_t i = 0; i < size; ++i)
      labels.push_back(static_cast<int>(uniform(5, 1, i) * static_cast<float>(shape.classes)));
    batch = {pixels, labels, size};
  }
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
  Batch batch;
};

}  // namespace

TEST_CASE("a cnn has the tensors of all convolutions first, and then those of the fully connected layers") {
  auto ops = kernels::make_reference_ops();
  const Cnn model(cnn_of({4, 6}, {10}), images(9, 7, 3, 5), 1, *ops);
  const auto& tensors = model.tensors();
  REQUIRE(tensors.size() == 8);
  using Shape = std::vector<std::int64_t>;
  CHECK(tensors[0].name == "convolutions.0.weight");
  CHECK(tensors[0].shape == Shape{4, 3, 3, 3});
  CHECK(tensors[1].name == "convolutions.0.bias");
  CHECK(tensors[2].shape == Shape{6, 3, 3, 4});
  CHECK(tensors[4].name == "layers.0.weight");
  CHECK(tensors[4].shape == Shape{10, 2 * 1 * 6});  // 9 x 7, 4 x 3, 2 x 1 pixels
  CHECK(tensors[6].shape == Shape{5, 10});
}

TEST_CASE("a cnn is refused as a bad configuration if the pools reduce an image to nothing") {
  auto ops = kernels::make_reference_ops();
  CHECK_THROWS_WITH_AS(Cnn(cnn_of({4, 6, 8}, {}), images(28, 7, 1, 5), 1, *ops),
                       "configuration: model.channels has 3 convolutions, each of which halves the image: "
                       "nothing is left of 28 x 7 pixels",
                       Failure);
}

TEST_CASE("the gradient of a whole convolutional network is the finite difference of its loss") {
  for (auto make : {kernels::make_reference_ops, +[] { return kernels::make_cpu_ops(); }}) {
    auto ops = make();
    CAPTURE(ops->name());
    const SampleShape shape = images(6, 5, 2, 4);
    const RandomImages data(5, shape);
    Cnn model(cnn_of({3, 4}, {6}), shape, 3, *ops);
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
      // Where a rectifier or a pool switches within h there is no derivative to compare with.
      if (std::abs(up - 2 * middle + down) / static_cast<double>(h) > 2e-3) {
        ++kinks;
        continue;
      }
      worst = std::max(worst, std::abs((up - down) / (2.0 * h) - static_cast<double>(gradients[i])));
      largest = std::max(largest, std::abs(static_cast<double>(gradients[i])));
    }
    CHECK(largest > 0.05);
    CHECK(worst < 2e-3);
    CHECK(kinks < gradients.size() / 5);
  }
}

TEST_CASE("gradients of a convolutional network become final from the last tensor to the first") {
  auto ops = kernels::make_cpu_ops();
  const SampleShape shape = images(8, 8, 1, 4);
  const RandomImages data(5, shape);
  Cnn model(cnn_of({3, 4}, {6}), shape, 3, *ops);
  std::vector<float> seen(model.gradients().size());
  std::size_t seen_from = seen.size();
  model.loss_and_gradients(data.batch, [&](std::size_t from) {
    REQUIRE(from < seen_from);
    const auto part = model.gradients().subspan(from, seen_from - from);
    std::ranges::copy(part, seen.begin() + static_cast<std::ptrdiff_t>(from));
    seen_from = from;
  });
  CHECK(seen_from == 0);
  CHECK(std::ranges::equal(seen, model.gradients()));
}

TEST_CASE("a small convolutional network learns to recognise handwritten digits") {
  const ImageSplit data = load_idx(std::string(mlk::test::source_dir()) + "/examples/data/digits");
  auto ops = kernels::make_cpu_ops();
  Cnn model(cnn_of({8, 16}, {32}), data.train.shape(), 1, *ops);
  const Optimizer optimizer({.lr = 0.05, .momentum = 0.9}, 200);
  std::vector<float> momentum(model.parameters().size());
  BatchBuffer buffer(*ops);
  for (std::uint64_t step = 0; step < 200; ++step) {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t i = 0; i < 32; ++i) ids.push_back(sample_at(1, step * 32 + i, data.train.size()));
    model.loss_and_gradients(data.train.gather(ids, buffer));
    optimizer.apply(*ops, model.parameters(), model.gradients(), momentum, {});
  }
  CHECK(model.evaluate(data.held_out)->accuracy > 0.95);
}
