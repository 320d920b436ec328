// Our side of the training step bench: the MLP of mlk-runtime on one thread, gather included.
// Prints one line of milliseconds per step for each repetition.
//   bench_step HIDDEN,HIDDEN BATCH STEPS REPETITIONS

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "runtime/dataset.h"
#include "runtime/model.h"
#include "runtime/optimizer.h"
#include "runtime/sampler.h"

namespace {

constexpr std::size_t samples = 60000;
constexpr int inputs = 784, classes = 10;

mlk::rt::Dataset noise() {
  std::vector<std::uint8_t> pixels(samples * inputs), labels(samples);
  std::uint32_t state = 1;
  const auto next = [&state] { return static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24); };
  for (std::uint8_t& pixel : pixels) pixel = next();
  for (std::uint8_t& label : labels) label = static_cast<std::uint8_t>(next() % classes);
  return mlk::rt::Dataset(std::move(pixels), std::move(labels), inputs, classes, 1.0f / 255);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  mlk::rt::ModelConfig config;
  std::stringstream hidden(argv[1]);
  config.hidden.clear();
  for (std::string size; std::getline(hidden, size, ',');) config.hidden.push_back(std::stoi(size));
  const auto batch = static_cast<std::size_t>(std::atoll(argv[2]));
  const int steps = std::atoi(argv[3]), repetitions = std::atoi(argv[4]);

  const std::unique_ptr<mlk::kernels::Ops> ops = mlk::kernels::make_cpu_ops(1);
  mlk::rt::Mlp model(config, inputs, classes, 1, *ops);
  const mlk::rt::Optimizer optimizer({.lr = 0.01, .momentum = 0.9}, 1);
  const mlk::rt::Dataset data = noise();
  std::vector<float> momentum(model.parameters().size());
  std::vector<std::uint64_t> ids(batch);
  mlk::rt::BatchBuffer buffer;
  std::uint64_t position = 0;
  double sum = 0;
  const auto step = [&] {
    for (std::uint64_t& id : ids) id = mlk::rt::sample_at(1, position++, samples);
    sum += static_cast<double>(model.loss_and_gradients(data.gather(ids, buffer)));
    optimizer.apply(*ops, model.parameters(), model.gradients(), momentum, {});
  };
  for (int i = 0; i < 20; ++i) step();
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step();
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    std::printf("%.6f\n", elapsed.count() / steps);
  }
  return sum == sum ? 0 : 1;
}
