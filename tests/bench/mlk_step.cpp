// Our side of the training step bench: the MLP of mlk-runtime, gather included.
// Prints one line of milliseconds per step for each repetition.
//   bench_step HIDDEN,HIDDEN BATCH STEPS REPETITIONS [THREADS [bfloat16]]      THREADS: 1
//   bench_step multiplies-bfloat16      exit status 0: this processor does
//   bench_step bound HIDDEN,HIDDEN BATCH
//                             what the matrix products of a step would take if one core did nothing but
//                             multiply and add, as many numbers at once as it can

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/floats.h"
#include "kernels/ops.h"
#include "runtime/data/image_dataset.h"
#include "runtime/data/sampler.h"
#include "runtime/model/model.h"
#include "runtime/model/optimizer.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

constexpr std::size_t samples = 60000;
constexpr int inputs = 784, classes = 10;

mlk::rt::ImageDataset noise() {
  std::vector<std::uint8_t> pixels(samples * inputs), labels(samples);
  std::uint32_t state = 1;
  const auto next = [&state] {
    return static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
  };
  for (std::uint8_t& pixel : pixels) pixel = next();
  for (std::uint8_t& label : labels) label = static_cast<std::uint8_t>(next() % classes);
  return mlk::rt::ImageDataset(std::move(pixels), std::move(labels), {inputs, classes}, 1.0f / 255);
}

std::vector<int> parse_hidden(const char* text) {
  std::vector<int> sizes;
  std::stringstream stream(text);
  for (std::string size; std::getline(stream, size, ',');) sizes.push_back(std::stoi(size));
  return sizes;
}

// Multiplications and additions of the products: forward, by the weights, and but for the first layer by the
// input.
double operations(const std::vector<int>& hidden, double batch) {
  double sum = 0, width = inputs;
  std::vector<int> outputs = hidden;
  outputs.push_back(classes);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    sum += (i == 0 ? 2 : 3) * 2 * batch * width * outputs[i];
    width = outputs[i];
  }
  return sum;
}

// Twelve sums, which stay in registers: more than the latency of an instruction asks for. Operations in all.
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] double fuse_avx2(long rounds) {
  __m256 sums[12];
  const __m256 factor = _mm256_set1_ps(0.5f);
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) sums[i] = factor;
  for (long round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, factor);
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) asm volatile("" : "+x"(sums[i]));
  }
  return static_cast<double>(rounds) * 12 * 8 * 2;
}

[[gnu::target("avx512f")]] double fuse_avx512(long rounds) {
  __m512 sums[12];
  const __m512 factor = _mm512_set1_ps(0.5f);
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) sums[i] = factor;
  for (long round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, factor);
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) asm volatile("" : "+v"(sums[i]));
  }
  return static_cast<double>(rounds) * 12 * 16 * 2;
}
#endif

// Milliseconds; not a number where it is not known how to measure them.
double bound(const std::vector<int>& hidden, double batch) {
  double (*fuse)(long) = nullptr;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) fuse = fuse_avx2;
  if (__builtin_cpu_supports("avx512f")) fuse = fuse_avx512;
#endif
  if (!fuse) return std::nan("");
  fuse(1'000'000);
  const auto start = std::chrono::steady_clock::now();
  const double done = fuse(20'000'000);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  return operations(hidden, batch) * elapsed.count() / done;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "bound") {
    std::printf("%.6f\n", bound(parse_hidden(argv[2]), std::atof(argv[3])));
    return 0;
  }
  if (argc == 2 && std::string(argv[1]) == "multiplies-bfloat16")
    return mlk::kernels::multiplies_bfloat16() ? 0 : 1;
  if (argc < 5 || argc > 7) return 2;
  mlk::rt::ModelConfig config;
  config.hidden = parse_hidden(argv[1]);
  const auto batch = static_cast<std::size_t>(std::atoll(argv[2]));
  const int steps = std::atoi(argv[3]), repetitions = std::atoi(argv[4]),
            threads = argc >= 6 ? std::atoi(argv[5]) : 1;
  using enum mlk::kernels::Precision;
  const auto precision = argc == 7 && std::string(argv[6]) == "bfloat16" ? bfloat16 : float32;

  const std::unique_ptr<mlk::kernels::Ops> ops = mlk::kernels::make_cpu_ops(threads, precision);
  const std::unique_ptr<mlk::rt::Model> made = mlk::rt::make_model(config, {inputs, classes}, 1, *ops);
  mlk::rt::Model& model = *made;
  const mlk::rt::Optimizer optimizer({.lr = 0.01, .momentum = 0.9}, 1);
  const mlk::rt::ImageDataset data = noise();
  mlk::kernels::Floats momentum(model.parameters().size());
  std::vector<std::uint64_t> ids(batch);
  mlk::rt::BatchBuffer buffer(*ops);
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
