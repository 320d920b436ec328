// A model trained by PyTorch from given weights on given batches, to be recorded. Prints the loss of every
// step, and leaves the trained weights in OUT. Without steps it prints the logits of one batch.
//   curve MODEL PRODUCTS IN OUT sgd WEIGHT_DECAY MOMENTUM NESTEROV
//   curve MODEL PRODUCTS IN OUT adam|adamw WEIGHT_DECAY BETA1 BETA2 EPSILON
// MODEL is mlp, cnn, or the number of heads of a gpt. PRODUCTS is float32; bfloat16, as Ops::gemm multiplies
// with Precision::bfloat16; or bfloat16-convolutions, where these do so too. Attention is always float32.
// IN, all little-endian: the int32 number of tensors; for each its int32 number of axes, int32 axes and
// float32 values; the int32 batch and steps; the int32 number of axes of a sample, and its axes; for each
// step, and once without any, the float32 learning rate, the samples (float32 pixels, or of a gpt int32
// tokens) and int32 labels, of a gpt one for each token. Tensors have the layouts of mlk-runtime's models:
// those of PyTorch, but for convolutions [outputs, height, width, inputs], the images [height, width,
// channels] and the layers of a gpt [inputs, outputs].

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

std::vector<int64_t> integers() {
  std::vector<int64_t> values(static_cast<std::size_t>(integer()));
  for (int64_t& value : values) value = integer();
  return values;
}

torch::Tensor tensor(const std::vector<int64_t>& shape, torch::ScalarType type = torch::kFloat32) {
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

using Tensors = std::vector<torch::Tensor>;

bool rounds_products = false, rounds_convolutions = false;

torch::Tensor rounded(const torch::Tensor& x) { return x.to(torch::kBFloat16).to(torch::kFloat32); }

// multiply(a, b) of rounded inputs. Its backward pass rounds its inputs too, and not its results: what
// rounding adds to a and b is a constant.
template <typename Multiply>
torch::Tensor rounding(const torch::Tensor& a, const torch::Tensor& b, Multiply multiply) {
  const auto input = [](const torch::Tensor& x) { return x + (rounded(x) - x).detach(); };
  const torch::Tensor result = multiply(input(a), input(b));
  if (result.requires_grad()) result.register_hook(rounded);
  return result;
}

torch::Tensor product(const torch::Tensor& a, const torch::Tensor& b) {
  const auto multiply = [](const torch::Tensor& x, const torch::Tensor& y) { return torch::matmul(x, y); };
  return rounds_products ? rounding(a, b, multiply) : multiply(a, b);
}

torch::Tensor convolution(const torch::Tensor& images, const torch::Tensor& weight) {
  const auto multiply = [](const torch::Tensor& x, const torch::Tensor& w) {
    return torch::conv2d(x, w, {}, 1, 1);
  };
  return rounds_convolutions ? rounding(images, weight, multiply) : multiply(images, weight);
}

torch::Tensor layers(torch::Tensor x, const Tensors& w, std::size_t from) {
  for (std::size_t i = from; i < w.size(); i += 2) {
    x = product(x, w[i].t()) + w[i + 1];
    if (i + 2 < w.size()) x = torch::relu(x);
  }
  return x;
}

// Convolutions have weights of four axes.
torch::Tensor cnn(torch::Tensor x, const Tensors& w) {
  std::size_t at = 0;
  x = x.permute({0, 3, 1, 2});
  for (; w[at].dim() == 4; at += 2) {
    x = convolution(x, w[at].permute({0, 3, 1, 2})) + w[at + 1].view({-1, 1, 1});
    x = torch::relu(torch::max_pool2d(x, 2));
  }
  return layers(x.permute({0, 2, 3, 1}).flatten(1), w, at);
}

// GPT-2, as Hugging Face's GPT2LMHeadModel computes it: token and position embeddings, twelve tensors of each
// block, the last norm.
torch::Tensor gpt(const torch::Tensor& tokens, const Tensors& w, int64_t heads) {
  const auto norm = [](const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) {
    return torch::layer_norm(x, weight.sizes(), weight, bias, 1e-5);
  };
  const int64_t batch = tokens.size(0), length = tokens.size(1), width = w[0].size(1);
  torch::Tensor x = torch::embedding(w[0], tokens) + w[1];
  for (std::size_t at = 2; at + 12 < w.size(); at += 12) {
    const torch::Tensor qkv = product(norm(x, w[at], w[at + 1]), w[at + 2]) + w[at + 3];
    std::vector<torch::Tensor> part = qkv.split(width, 2);
    for (torch::Tensor& one : part) one = one.view({batch, length, heads, width / heads}).transpose(1, 2);
    const torch::Tensor attended =
        torch::scaled_dot_product_attention(part[0], part[1], part[2], {}, 0, true);
    x = x + product(attended.transpose(1, 2).reshape({batch, length, width}), w[at + 4]) + w[at + 5];
    const torch::Tensor wide =
        torch::gelu(product(norm(x, w[at + 6], w[at + 7]), w[at + 8]) + w[at + 9], "tanh");
    x = x + product(wide, w[at + 10]) + w[at + 11];
  }
  return product(norm(x, w[w.size() - 2], w[w.size() - 1]), w[0].t()).flatten(0, 1);
}

torch::Tensor logits_of(const std::string& model, const torch::Tensor& x, const Tensors& w) {
  if (model == "mlp") return layers(x, w, 0);
  if (model == "cnn") return cnn(x, w);
  return gpt(x, w, std::atoi(model.c_str()));
}

void print_rows(const torch::Tensor& logits) {
  for (int64_t row = 0; row < logits.size(0); ++row) {
    for (int64_t i = 0; i < logits.size(1); ++i)
      std::printf("%.9g%c", logits[row][i].item<double>(), i + 1 < logits.size(1) ? ' ' : '\n');
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 9) return 2;
  const std::string model = argv[1], products = argv[2];
  rounds_convolutions = products == "bfloat16-convolutions";
  rounds_products = rounds_convolutions || products == "bfloat16";
  const bool images = model == "mlp" || model == "cnn";
  at::set_num_threads(1);
  in.open(argv[3], std::ios::binary);
  Tensors parameters(static_cast<std::size_t>(integer()));
  for (torch::Tensor& parameter : parameters) parameter = tensor(integers()).requires_grad_();
  const int64_t batch = integer(), steps = integer();
  std::vector<int64_t> shape = integers();
  shape.insert(shape.begin(), batch);
  const auto rule = optimizer(parameters, argv + 5);
  for (int64_t step = 0; step < std::max<int64_t>(steps, 1); ++step) {
    rule->param_groups()[0].options().set_lr(tensor({1}).item<float>());
    const torch::Tensor x = images ? tensor(shape) : tensor(shape, torch::kInt32).to(torch::kInt64);
    const torch::Tensor logits = logits_of(model, x, parameters);
    const torch::Tensor labels = tensor({logits.size(0)}, torch::kInt32).to(torch::kInt64);
    if (steps == 0) {
      print_rows(logits);
      break;
    }
    const torch::Tensor loss = torch::cross_entropy_loss(logits, labels);
    rule->zero_grad();
    loss.backward();
    rule->step();
    std::printf("%.9g\n", loss.item<double>());
  }
  if (!in) return 1;
  std::ofstream out(argv[4], std::ios::binary);
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor values = parameter.detach().contiguous();
    out.write(static_cast<const char*>(values.data_ptr()), static_cast<std::streamsize>(values.nbytes()));
  }
  return out.flush() ? 0 : 1;
}
