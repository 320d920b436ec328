// The peer of the training step bench: the same MLP on libtorch (eager, CPU, one thread), the same batches,
// gather included. Prints one line of milliseconds per step for each repetition.
//   torch_step HIDDEN,HIDDEN BATCH STEPS REPETITIONS

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <torch/torch.h>
#include <vector>

namespace {

constexpr int64_t samples = 60000, inputs = 784, classes = 10;

struct Layer {
  torch::Tensor weight, bias, weight_momentum, bias_momentum;
};

Layer make_layer(int64_t in, int64_t out) {
  const auto parameter = torch::TensorOptions().requires_grad(true);
  Layer layer{torch::empty({out, in}, parameter), torch::zeros({out}, parameter), torch::zeros({out, in}),
              torch::zeros({out})};
  torch::NoGradGuard no_grad;
  layer.weight.normal_(0, std::sqrt(2.0 / static_cast<double>(in)));
  return layer;
}

void update(torch::Tensor& value, torch::Tensor& momentum) {
  momentum.mul_(0.9).add_(value.grad());
  value.sub_(momentum, 0.01);
  value.mutable_grad().zero_();
}

double step(std::vector<Layer>& layers, const torch::Tensor& images, const torch::Tensor& labels,
            const torch::Tensor& ids) {
  torch::Tensor x = images.index_select(0, ids);
  const torch::Tensor y = labels.index_select(0, ids);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    x = torch::linear(x, layers[i].weight, layers[i].bias);
    if (i + 1 < layers.size()) x = torch::relu_(x);
  }
  const torch::Tensor loss = torch::cross_entropy_loss(x, y);
  loss.backward();
  torch::NoGradGuard no_grad;
  for (Layer& layer : layers) {
    update(layer.weight, layer.weight_momentum);
    update(layer.bias, layer.bias_momentum);
  }
  return loss.item<double>();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  at::set_num_threads(1);
  torch::manual_seed(1);
  std::vector<int64_t> sizes{inputs};
  std::stringstream hidden(argv[1]);
  for (std::string size; std::getline(hidden, size, ',');) sizes.push_back(std::stoll(size));
  sizes.push_back(classes);
  const int64_t batch = std::atoll(argv[2]);
  const int steps = std::atoi(argv[3]), repetitions = std::atoi(argv[4]);

  const torch::Tensor images = torch::rand({samples, inputs});
  const torch::Tensor labels = torch::randint(0, classes, {samples}, torch::kInt64);
  std::vector<Layer> layers;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) layers.push_back(make_layer(sizes[i], sizes[i + 1]));
  double sum = 0;
  for (int i = 0; i < 20; ++i) sum += step(layers, images, labels, torch::randint(0, samples, {batch}));
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) sum += step(layers, images, labels, torch::randint(0, samples, {batch}));
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    std::printf("%.6f\n", elapsed.count() / steps);
  }
  return sum == sum ? 0 : 1;
}
