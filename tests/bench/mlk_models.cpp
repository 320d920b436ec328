// Our side of the bench of larger models: a step of GPT-2 and of a convolutional network, as mlk-runtime
// makes them. Prints one line of milliseconds per step for each repetition.
//   bench_models gpt|cnn STEPS REPETITIONS [THREADS]      THREADS: 1

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/floats.h"
#include "kernels/ops.h"
#include "runtime/data/image_dataset.h"
#include "runtime/data/sampler.h"
#include "runtime/model/model.h"
#include "runtime/model/optimizer.h"

namespace {

using mlk::rt::Batch;

std::uint32_t random_number() {
  static std::uint32_t state = 1;
  return (state = state * 1664525u + 1013904223u) >> 16;
}

// A model, its optimizer, and the gradients' largest norm, or 0.
struct Training {
  mlk::kernels::Ops& ops;
  std::unique_ptr<mlk::rt::Model> model;
  mlk::rt::Optimizer optimizer;
  float clip;
  mlk::kernels::Floats state = mlk::kernels::Floats(optimizer.slots() * model->parameters().size());
  std::uint64_t steps = 0;

  double step(const Batch& batch) {
    const double loss = static_cast<double>(model->loss_and_gradients(batch));
    if (clip > 0) ops.clip(model->gradients(), clip);
    optimizer.apply(ops, model->parameters(), model->gradients(), state, {.step = steps, .state_age = steps});
    ++steps;
    return loss;
  }
};

// A step of the GPT of examples/gpt-cpu.yaml, on random tokens.
std::function<double()> gpt(mlk::kernels::Ops& ops) {
  constexpr std::size_t sequences = 8, context = 256, vocabulary = 256, tokens = sequences * context;
  mlk::rt::ModelConfig config;
  config.type = mlk::rt::ModelType::gpt;
  config.layers = 4, config.width = 256, config.heads = 4, config.context = context;
  const mlk::rt::SampleShape shape{.inputs = context, .classes = vocabulary, .labels = context};
  const auto training = std::make_shared<Training>(
      Training{ops,
               mlk::rt::make_model(config, shape, 1, ops),
               {{.type = mlk::rt::OptimizerType::adamw, .lr = 0.001, .weight_decay = 0.1}, 1},
               1});
  return [training, text = std::vector<std::int32_t>(tokens + 1)]() mutable {
    for (std::int32_t& token : text) token = static_cast<std::int32_t>(random_number() % vocabulary);
    const std::span<const std::int32_t> all = text;
    return training->step({{}, all.last(tokens), sequences, all.first(tokens)});
  };
}

// A step of two convolutions and two dense layers on images of the shape of CIFAR's, gather included.
std::function<double()> cnn(mlk::kernels::Ops& ops) {
  constexpr std::size_t samples = 8192, batch = 64;
  constexpr int side = 32, colours = 3, inputs = side * side * colours, classes = 10;
  mlk::rt::ModelConfig config;
  config.type = mlk::rt::ModelType::cnn;
  config.channels = {32, 64};
  config.hidden = {128};
  const mlk::rt::SampleShape shape{.inputs = inputs, .classes = classes, .image = {1, side, side, colours}};
  const auto training = std::make_shared<Training>(
      Training{ops, mlk::rt::make_model(config, shape, 1, ops), {{.lr = 0.01, .momentum = 0.9}, 1}, 0});
  std::vector<std::uint8_t> pixels(samples * inputs), labels(samples);
  for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(random_number());
  for (std::uint8_t& label : labels) label = static_cast<std::uint8_t>(random_number() % classes);
  const auto data =
      std::make_shared<mlk::rt::ImageDataset>(std::move(pixels), std::move(labels), shape, 1.0f / 255);
  const auto buffer = std::make_shared<mlk::rt::BatchBuffer>(ops);
  return [training, data, buffer, position = std::uint64_t{0}]() mutable {
    std::vector<std::uint64_t> ids(batch);
    for (std::uint64_t& id : ids) id = mlk::rt::sample_at(1, position++, samples);
    return training->step(data->gather(ids, *buffer));
  };
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  const int steps = std::atoi(argv[2]), repetitions = std::atoi(argv[3]);
  const auto ops = mlk::kernels::make_cpu_ops(argc == 5 ? std::atoi(argv[4]) : 1);
  const auto step = std::string(argv[1]) == "gpt" ? gpt(*ops) : cnn(*ops);
  double sum = 0;
  for (int i = 0; i < 3; ++i) sum += step();
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) sum += step();
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    std::printf("%.6f\n", elapsed.count() / steps);
  }
  return sum == sum ? 0 : 1;
}
