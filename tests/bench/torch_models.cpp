// The peer of the bench of larger models: the same GPT-2 and the same convolutional network on libtorch
// (eager, CPU), each as fast as its eager operations allow: fused attention, fused AdamW, and images with the
// channels last, which its convolutions prefer. Prints one line of milliseconds per step for each repetition.
//   torch_models gpt|cnn STEPS REPETITIONS THREADS
// On AMD's processors MKL, which multiplies its matrices, takes kernels for AVX2, also where there is
// AVX-512. With MKL_AS_ON_INTEL in the environment it takes those that it would take on Intel's.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <torch/torch.h>
#include <vector>

namespace {

using torch::Tensor;

std::vector<Tensor> parameters;

Tensor parameter(std::vector<int64_t> shape, double deviation, double mean = 0) {
  Tensor made = torch::empty(shape);
  made.normal_(mean, deviation);
  parameters.push_back(made.requires_grad_());
  return made;
}

std::vector<Tensor> zeros_like_all() {
  std::vector<Tensor> made;
  for (const Tensor& one : parameters) made.push_back(torch::zeros_like(one));
  return made;
}

std::vector<Tensor> all_gradients() {
  std::vector<Tensor> gradients;
  for (const Tensor& one : parameters) gradients.push_back(one.grad());
  return gradients;
}

struct Linear {
  Linear(int64_t in, int64_t out)
      : weight(parameter({out, in}, std::sqrt(1.0 / static_cast<double>(in)))), bias(parameter({out}, 0)) {}
  Tensor operator()(const Tensor& x) const { return torch::linear(x, weight, bias); }
  Tensor weight, bias;
};

constexpr int64_t sequences = 8, context = 256, vocabulary = 256, width = 256, heads = 4;

struct Norm {
  Tensor weight = parameter({width}, 0, 1), bias = parameter({width}, 0);
  Tensor operator()(const Tensor& x) const { return torch::layer_norm(x, {width}, weight, bias); }
};

struct Block {
  Norm norm_1, norm_2;
  Linear qkv{width, 3 * width}, projection{width, width}, expansion{width, 4 * width},
      contraction{4 * width, width};

  Tensor operator()(const Tensor& x) const {
    const auto parts = qkv(norm_1(x)).split(width, 2);
    const auto of_heads = [](const Tensor& part) {
      return part.view({sequences, context, heads, width / heads}).transpose(1, 2);
    };
    const Tensor attended = torch::scaled_dot_product_attention(of_heads(parts[0]), of_heads(parts[1]),
                                                                of_heads(parts[2]), {}, 0, true);
    const Tensor middle =
        x + projection(attended.transpose(1, 2).contiguous().view({sequences, context, width}));
    return middle + contraction(torch::gelu(expansion(norm_2(middle)), "tanh"));
  }
};

std::function<double()> gpt() {
  const Tensor tokens_table = parameter({vocabulary, width}, 0.02),
               positions_table = parameter({context, width}, 0.02);
  std::vector<Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.emplace_back();
  const Norm last;
  const auto means = zeros_like_all(), squares = zeros_like_all();
  std::vector<Tensor> ages;
  for (std::size_t i = 0; i < parameters.size(); ++i) ages.push_back(torch::zeros({}));
  return [=] {
    const Tensor text = torch::randint(0, vocabulary, {sequences * context + 1}, torch::kInt64);
    const Tensor tokens = text.narrow(0, 0, sequences * context),
                 labels = text.narrow(0, 1, sequences * context);
    Tensor x = torch::embedding(tokens_table, tokens.view({sequences, context})) + positions_table;
    for (const Block& block : blocks) x = block(x);
    const Tensor logits = torch::linear(last(x), tokens_table).view({sequences * context, vocabulary});
    const Tensor loss = torch::cross_entropy_loss(logits, labels);
    loss.backward();
    torch::NoGradGuard no_grad;
    const std::vector<Tensor> gradients = all_gradients();
    const Tensor norm = torch::stack(torch::_foreach_norm(gradients)).norm();
    torch::_foreach_mul_(gradients, (1 / (norm + 1e-6)).clamp(std::nullopt, 1));
    torch::_foreach_add_(ages, 1);
    torch::_fused_adamw_(parameters, gradients, means, squares, {}, ages, 0.001, 0.9, 0.999, 0.1, 1e-8, false,
                         false);
    for (const Tensor& one : parameters) one.mutable_grad().reset();
    return loss.item<double>();
  };
}

std::function<double()> cnn() {
  constexpr int64_t samples = 8192, batch = 64, side = 32, classes = 10;
  const Tensor images = torch::randint(0, 256, {samples, side, side, 3}, torch::kUInt8);
  const Tensor labels = torch::randint(0, classes, {samples}, torch::kInt64);
  const auto filter = [](int64_t out, int64_t in) {
    Tensor made = torch::empty({out, in, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast);
    made.normal_(0, std::sqrt(2.0 / (9 * static_cast<double>(in))));
    parameters.push_back(made.requires_grad_());
    return made;
  };
  const Tensor first = filter(32, 3), first_bias = parameter({32}, 0), second = filter(64, 32),
               second_bias = parameter({64}, 0);
  const Linear hidden(64 * side * side / 16, 128), last(128, classes);
  const auto momenta = zeros_like_all();
  return [=] {
    const Tensor ids = torch::randint(0, samples, {batch}, torch::kInt64);
    Tensor x = images.index_select(0, ids).to(torch::kFloat32).mul_(1.0 / 255).permute({0, 3, 1, 2});
    x = torch::max_pool2d(torch::conv2d(x, first, first_bias, 1, 1), 2).relu_();
    x = torch::max_pool2d(torch::conv2d(x, second, second_bias, 1, 1), 2).relu_();
    const Tensor logits = last(hidden(x.flatten(1)).relu_());
    const Tensor loss = torch::cross_entropy_loss(logits, labels.index_select(0, ids));
    loss.backward();
    torch::NoGradGuard no_grad;
    const std::vector<Tensor> gradients = all_gradients();
    torch::_fused_sgd_(parameters, gradients, momenta, 0, 0.9, 0.01, 0, false, false, false);
    for (const Tensor& one : parameters) one.mutable_grad().reset();
    return loss.item<double>();
  };
}

}  // namespace

// MKL asks this function of its own, which the dynamic linker replaces by this one.
extern "C" int mkl_serv_intel_cpu_true() {
  return std::getenv("MKL_AS_ON_INTEL") != nullptr || __builtin_cpu_is("intel");
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  at::set_num_threads(std::atoi(argv[4]));
  torch::manual_seed(1);
  const int steps = std::atoi(argv[2]), repetitions = std::atoi(argv[3]);
  const auto step = std::string(argv[1]) == "gpt" ? gpt() : cnn();
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
