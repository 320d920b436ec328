// Our side of the benches of tests/gpu/run, on device 0 of a plugin. Each line on stdin asks for a round,
// which answers with one line of JSON, so that the sides of a comparison take turns. The first line on stdout
// names the device.
//   bench_gpu PLUGIN gpt|mlp|attention|memory [--tiny]
//   gpt         GPT-2 124M with bfloat16: {"tokens a second": N}
//   mlp         [512,512] with batches of 128: {"steps a second": N}
//   attention   12 heads of 64 numbers, 1024 positions, bfloat16: {"forward ms": N, "backward ms": N}
//   memory      GB/s of a copy and of kernels, each of its inputs and outputs counted once
// --tiny: sizes for an emulator, which show only that the program runs.

#include <chrono>
#include <cstdio>
#include <dlfcn.h>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device/device_ops.h"
#include "runtime/data/image_dataset.h"
#include "runtime/data/sampler.h"
#include "runtime/model/model.h"
#include "runtime/model/optimizer.h"

namespace {

using mlk::kernels::Buffer;
using mlk::kernels::Ops;
using mlk::kernels::Precision;

struct Size {
  bool tiny = false;
  template <typename Number>
  Number operator()(Number real, Number small) const {
    return tiny ? small : real;
  }
};

// Names and numbers of a round, as JSON.
using Round = std::vector<std::pair<std::string, double>>;

std::uint32_t random_number() {
  static std::uint32_t state = 1;
  return (state = state * 1664525u + 1013904223u) >> 8;
}

std::size_t times(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

std::vector<std::int32_t> random_tokens(std::size_t count, int vocabulary) {
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens)
    token = static_cast<std::int32_t>(random_number() % static_cast<std::uint32_t>(vocabulary));
  return tokens;
}

Buffer<float> random_numbers(Ops& ops, std::size_t count) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(random_number() % 2048) / 1024 - 1;
  auto buffer = ops.allocate<float>(count);
  ops.write(numbers, buffer);
  return buffer;
}

Buffer<std::int32_t> on_device(Ops& ops, const std::vector<std::int32_t>& tokens) {
  auto buffer = ops.allocate<std::int32_t>(tokens.size());
  ops.write_tokens(tokens, buffer);
  return buffer;
}

// Seconds that the device takes for the work, as the mean of so many times. What is queued is waited for by
// reading a number behind it.
double seconds_of(Ops& ops, int repetitions, const std::function<void()>& work) {
  const auto mark = ops.allocate<float>(1);
  work();
  ops.read(mark);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) work();
  ops.read(mark);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / repetitions;
}

// A model and its optimizer, with the gradients' norm at most 1 if it is clipped.
struct Training {
  Ops& ops;
  std::unique_ptr<mlk::rt::Model> model;
  bool clip;
  mlk::rt::Optimizer optimizer{{.type = mlk::rt::OptimizerType::adamw, .lr = 1e-4, .weight_decay = 0.1}, 1};
  Buffer<float> state = ops.allocate<float>(optimizer.slots() * model->parameters().size());
  std::uint64_t steps = 0;

  void step(const mlk::rt::Batch& batch) {
    model->loss_and_gradients(batch);
    if (clip) ops.clip(model->gradients(), 1);
    const mlk::rt::Model::Update update = model->update();
    optimizer.apply(ops, update.parameters, model->gradients(), state, {.step = steps, .state_age = steps},
                    update.rounded);
    ++steps;
  }
};

std::function<Round()> gpt(Ops& ops, Size size) {
  mlk::rt::ModelConfig config;
  config.type = mlk::rt::ModelType::gpt;
  config.layers = size(12, 1), config.width = size(768, 64), config.heads = size(12, 1);
  config.context = size(1024, 32);
  const int sequences = size(32, 1), vocabulary = size(50304, 96), steps = size(10, 1);
  const mlk::rt::SampleShape shape{.inputs = config.context, .classes = vocabulary, .labels = config.context};
  const std::size_t tokens = times(sequences, config.context);
  const auto training =
      std::make_shared<Training>(Training{ops, mlk::rt::make_model(config, shape, 1, ops), true});
  const auto inputs = std::make_shared<Buffer<std::int32_t>>(ops.allocate<std::int32_t>(tokens));
  const auto labels = std::make_shared<Buffer<std::int32_t>>(ops.allocate<std::int32_t>(tokens));
  return [=, &ops]() -> Round {
    const double seconds = seconds_of(ops, steps, [&] {
      const std::vector<std::int32_t> text = random_tokens(tokens + 1, vocabulary);
      const std::span<const std::int32_t> all = text;
      ops.write_tokens(all.first(tokens), *inputs);
      ops.write_tokens(all.last(tokens), *labels);
      training->step({{}, *labels, static_cast<std::size_t>(sequences), *inputs});
    });
    return {{"tokens a second", static_cast<double>(tokens) / seconds}};
  };
}

std::function<Round()> mlp(Ops& ops, Size size) {
  constexpr int side = 28, inputs = side * side, classes = 10;
  const std::size_t samples = size(8192, 64), batch = size(128, 8);
  const int steps = size(2000, 3);
  mlk::rt::ModelConfig config;
  config.hidden = size.tiny ? std::vector<int>{16, 16} : std::vector<int>{512, 512};
  const mlk::rt::SampleShape shape{.inputs = inputs, .classes = classes, .image = {1, side, side, 1}};
  const auto training =
      std::make_shared<Training>(Training{ops, mlk::rt::make_model(config, shape, 1, ops), false});
  std::vector<std::uint8_t> pixels(samples * inputs), labels(samples);
  for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(random_number());
  for (std::uint8_t& label : labels) label = static_cast<std::uint8_t>(random_number() % classes);
  const auto data =
      std::make_shared<mlk::rt::ImageDataset>(std::move(pixels), std::move(labels), shape, 1.0f / 255);
  const auto buffer = std::make_shared<mlk::rt::BatchBuffer>(ops);
  return [=, &ops, position = std::uint64_t{0}]() mutable -> Round {
    std::vector<std::uint64_t> ids(batch);
    const double seconds = seconds_of(ops, steps, [&] {
      for (std::uint64_t& id : ids) id = mlk::rt::sample_at(1, position++, samples);
      training->step(data->gather(ids, *buffer));
    });
    return {{"steps a second", 1 / seconds}};
  };
}

std::function<Round()> attention(Ops& ops, Size size) {
  const mlk::kernels::AttentionShape shape{size(16, 1), size(1024, 32), size(12, 1), 64};
  const int repetitions = size(20, 1);
  const std::size_t heads = times(shape.batch, shape.length) * static_cast<std::size_t>(shape.heads),
                    numbers = heads * static_cast<std::size_t>(shape.head_size);
  struct Tensors {
    Buffer<float> qkv, delta, out, log_sums, gradient;
  };
  const auto of = std::make_shared<Tensors>(
      Tensors{random_numbers(ops, 3 * numbers), random_numbers(ops, numbers), ops.allocate<float>(numbers),
              ops.allocate<float>(heads), ops.allocate<float>(3 * numbers)});
  return [=, &ops]() -> Round {
    const double forward = seconds_of(
        ops, repetitions, [&] { ops.attention(shape, of->qkv.data(), of->out.data(), of->log_sums.data()); });
    const double backward = seconds_of(ops, repetitions, [&] {
      ops.attention_backward(shape, of->qkv.data(), of->out.data(), of->log_sums.data(), of->delta.data(),
                             of->gradient.data());
    });
    return {{"forward ms", forward * 1000}, {"backward ms", backward * 1000}};
  };
}

constexpr int copies_at_a_time = 10;

// So many of the driver's copies between two places of the device; empty where there is no driver.
std::function<void()> driver_copy(const Buffer<float>& to, const Buffer<float>& from) {
  using Copy = int (*)(unsigned long long to, unsigned long long from, std::size_t bytes);
  using Wait = int (*)();
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto copy = driver ? reinterpret_cast<Copy>(dlsym(driver, "cuMemcpyDtoD_v2")) : nullptr;
  const auto wait = driver ? reinterpret_cast<Wait>(dlsym(driver, "cuCtxSynchronize")) : nullptr;
  if (!copy || !wait) return {};
  return [=, target = to.data(), source = from.data(), bytes = from.size() * sizeof(float)] {
    int failed = 0;
    for (int i = 0; i < copies_at_a_time; ++i)
      failed |= copy(reinterpret_cast<unsigned long long>(target),
                     reinterpret_cast<unsigned long long>(source), bytes);
    if ((failed | wait()) != 0) throw mlk::kernels::DeviceFailure("the driver's copy has failed");
  };
}

struct Kernel {
  std::string name;
  double bytes;
  std::function<void()> run;
};

Kernel adamw(Ops& ops, Size size) {
  const std::size_t count = size(std::size_t{1} << 27, std::size_t{1000});
  const auto state = std::make_shared<std::vector<Buffer<float>>>();
  for (int i = 0; i < 4; ++i) state->push_back(ops.allocate<float>(count));
  return {"adamw", 28.0 * static_cast<double>(count), [=, &ops] {
            auto& of = *state;
            ops.adam(of[0], of[1], of[2], of[3],
                     {.lr = 1e-4f,
                      .epsilon = 1e-8f,
                      .decay = 1e-5f,
                      .beta1 = 0.9f,
                      .one_minus_beta1 = 0.1f,
                      .beta2 = 0.999f,
                      .one_minus_beta2 = 0.001f});
          }};
}

std::vector<Kernel> layer_norm(Ops& ops, Size size) {
  const int rows = size(65536, 32), columns = size(768, 64);
  const std::size_t all = times(rows, columns), few = times(columns, 1);
  struct Tensors {
    Buffer<float> x, weight, bias, out, mean, scale, x_gradient, weight_gradient, bias_gradient;
  };
  const auto buffer = [&](std::size_t count) { return ops.allocate<float>(count); };
  const auto of = std::make_shared<Tensors>(
      Tensors{random_numbers(ops, all), random_numbers(ops, few), buffer(few), buffer(all),
              buffer(times(rows, 1)), buffer(times(rows, 1)), buffer(all), buffer(few), buffer(few)});
  const auto numbers = static_cast<double>(all);
  return {{"layer norm", 8 * numbers,
           [=, &ops] {
             ops.layer_norm(rows, columns, of->x.data(), of->weight.data(), of->bias.data(), of->out.data(),
                            of->mean.data(), of->scale.data());
           }},
          {"layer norm backward", 16 * numbers, [=, &ops] {
             ops.layer_norm_backward(rows, columns, of->x.data(), of->weight.data(), of->mean.data(),
                                     of->scale.data(), of->out.data(), of->x_gradient.data(),
                                     of->weight_gradient.data(), of->bias_gradient.data());
           }}};
}

Kernel classifier(Ops& ops, Size size) {
  const int rows = size(4096, 8), classes = size(50304, 96);
  const auto logits = std::make_shared<Buffer<float>>(random_numbers(ops, times(rows, classes)));
  const auto delta = std::make_shared<Buffer<float>>(ops.allocate<float>(times(rows, classes)));
  const auto labels = std::make_shared<Buffer<std::int32_t>>(
      on_device(ops, random_tokens(static_cast<std::size_t>(rows), classes)));
  const auto loss = std::make_shared<Buffer<float>>(ops.allocate<float>(1));
  return {"classifier", 8 * static_cast<double>(times(rows, classes)), [=, &ops] {
            ops.softmax_cross_entropy_backward(rows, classes, logits->data(), labels->data(), delta->data(),
                                               loss->data());
          }};
}

Kernel embedding_backward(Ops& ops, Size size) {
  const int length = size(1024, 16), rows = size(32, 2) * length, columns = size(768, 64),
            vocabulary = size(50304, 96);
  const std::vector<std::int32_t> text = random_tokens(static_cast<std::size_t>(rows), vocabulary);
  const auto different = static_cast<double>(std::set(text.begin(), text.end()).size());
  const auto tokens = std::make_shared<Buffer<std::int32_t>>(on_device(ops, text));
  const auto delta = std::make_shared<Buffer<float>>(random_numbers(ops, times(rows, columns)));
  const auto table = std::make_shared<Buffer<float>>(ops.allocate<float>(times(vocabulary, columns)));
  const auto positions = std::make_shared<Buffer<float>>(ops.allocate<float>(times(length, columns)));
  // delta and the tokens, a row of the table read and written for each different one, and the positions.
  const double bytes = 4.0 * (rows * (columns + 1.0) + columns * (2 * different + length));
  return {"embedding backward", bytes, [=, &ops] {
            ops.embed_backward(rows, length, columns, tokens->data(), delta->data(), table->data(),
                               positions->data());
          }};
}

std::function<Round()> memory(Ops& ops, Size size) {
  const std::size_t count = size(std::size_t{1} << 28, std::size_t{1000});
  const auto from = std::make_shared<Buffer<float>>(ops.allocate<float>(count));
  const auto to = std::make_shared<Buffer<float>>(ops.allocate<float>(count));
  const double copied = 8.0 * static_cast<double>(count);
  std::vector<Kernel> kernels = layer_norm(ops, size);
  if (const auto copy = driver_copy(*to, *from))
    kernels.push_back({"copy by the driver", copies_at_a_time * copied, copy});
  kernels.push_back({"copy by a kernel", copied, [=, &ops] { ops.scale(1, *from, *to); }});
  kernels.push_back(adamw(ops, size));
  kernels.push_back(classifier(ops, size));
  kernels.push_back(embedding_backward(ops, size));
  return [=, &ops] {
    Round round;
    for (const Kernel& kernel : kernels)
      round.emplace_back(kernel.name, kernel.bytes / seconds_of(ops, size(20, 1), kernel.run) / 1e9);
    return round;
  };
}

void answer(const Round& round) {
  std::string line;
  for (const auto& [name, number] : round)
    line += (line.empty() ? "{\"" : ", \"") + name + "\": " + std::to_string(number);
  std::cout << line << "}" << std::endl;
}

int run(const std::string& plugin, std::string_view name, Size size) {
  const bool halves = name == "gpt" || name == "attention";
  const auto ops = mlk::kernels::make_device_ops(mlk::kernels::load_plugin(plugin), 0,
                                                 halves ? Precision::bfloat16 : Precision::float32);
  std::function<Round()> round;
  if (name == "gpt") round = gpt(*ops, size);
  if (name == "mlp") round = mlp(*ops, size);
  if (name == "attention") round = attention(*ops, size);
  if (name == "memory") round = memory(*ops, size);
  if (!round) return 2;
  round();
  std::cout << ops->name() << std::endl;
  for (std::string line; std::getline(std::cin, line);) answer(round());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool tiny = argc == 4 && std::string_view(argv[3]) == "--tiny";
  if (argc != 3 && !tiny) return 2;
  try {
    return run(argv[1], argv[2], {tiny});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_gpu: %s\n", error.what());
    return 1;
  }
}
