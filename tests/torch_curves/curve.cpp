// A multi-layer perceptron trained by PyTorch from given weights on given batches, to be recorded.
// Prints the loss of every step, and leaves the trained weights in OUT.
//   curve IN OUT sgd WEIGHT_DECAY MOMENTUM NESTEROV
//   curve IN OUT adam|adamw WEIGHT_DECAY BETA1 BETA2 EPSILON
// IN, all little-endian: int32 widths (their number first), batch, steps; float32 weight [outputs, inputs]
// and bias of each layer; for each step the float32 learning rate and images [batch, inputs], and int32
// labels [batch].

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <torch/torch.h>
#include <vector>

namespace {

std::ifstream in;

std::int64_t integer() {
  std::int32_t value = 0;
  in.read(reinterpret_cast<char*>(&value), sizeof value);
  return value;
}

torch::Tensor tensor(std::vector<int64_t> shape, torch::ScalarType type = torch::kFloat32) {
  torch::Tensor values = torch::empty(shape, type);
  in.read(static_cast<char*>(values.data_ptr()), static_cast<std::streamsize>(values.nbytes()));
  return values;
}

std::unique_ptr<torch::optim::Optimizer> optimizer(const std::vector<torch::Tensor>& parameters,
                                                   char** options) {
  const std::string type = options[0];
  const double weight_decay = std::atof(options[1]), first = std::atof(options[2]),
               second = std::atof(options[3]);
  if (type == "sgd") {
    return std::make_unique<torch::optim::SGD>(
        parameters,
        torch::optim::SGDOptions(1).weight_decay(weight_decay).momentum(first).nesterov(second != 0));
  }
  const double epsilon = std::atof(options[4]);
  if (type == "adam") {
    return std::make_unique<torch::optim::Adam>(
        parameters,
        torch::optim::AdamOptions(1).weight_decay(weight_decay).betas({first, second}).eps(epsilon));
  }
  return std::make_unique<torch::optim::AdamW>(
      parameters,
      torch::optim::AdamWOptions(1).weight_decay(weight_decay).betas({first, second}).eps(epsilon));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  at::set_num_threads(1);
  in.open(argv[1], std::ios::binary);
  std::vector<int64_t> widths(static_cast<std::size_t>(integer()));
  for (int64_t& width : widths) width = integer();
  const int64_t batch = integer(), steps = integer();
  std::vector<torch::Tensor> parameters;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    parameters.push_back(tensor({widths[i + 1], widths[i]}).requires_grad_());
    parameters.push_back(tensor({widths[i + 1]}).requires_grad_());
  }
  const auto rule = optimizer(parameters, argv + 3);
  for (int64_t step = 0; step < steps; ++step) {
    rule->param_groups()[0].options().set_lr(tensor({1}).item<float>());
    torch::Tensor x = tensor({batch, widths.front()});
    const torch::Tensor labels = tensor({batch}, torch::kInt32).to(torch::kInt64);
    for (std::size_t i = 0; i < parameters.size(); i += 2) {
      x = torch::linear(x, parameters[i], parameters[i + 1]);
      if (i + 2 < parameters.size()) x = torch::relu(x);
    }
    const torch::Tensor loss = torch::cross_entropy_loss(x, labels);
    rule->zero_grad();
    loss.backward();
    rule->step();
    std::printf("%.9g\n", loss.item<double>());
  }
  if (!in) return 1;
  std::ofstream out(argv[2], std::ios::binary);
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor values = parameter.detach().contiguous();
    out.write(static_cast<const char*>(values.data_ptr()), static_cast<std::streamsize>(values.nbytes()));
  }
  return out.flush() ? 0 : 1;
}
