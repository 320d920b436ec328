// What a model begins with, for tests that compare it with other programs.
//
// usage: model_probe CONFIG DATA OUT [WEIGHTS]
//
// Makes the model of a configuration (CONTRACT.md) for the data set in the folder DATA, with the weights of
// the file WEIGHTS or else by the seed, and leaves its weights in the folder OUT as a run does at its end. Of
// a GPT it prints the logits of the first batch of training sequences, a token on each line.
#include <cstdio>
#include <exception>
#include <numeric>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "runtime/checkpoint/weights_file.h"
#include "runtime/data/dataset.h"
#include "runtime/launch/config.h"
#include "runtime/model/gpt.h"
#include "runtime/model/model.h"

using namespace mlk::rt;

namespace {

void print_logits(Gpt& model, const Config& config, const Dataset& data) {
  std::vector<std::uint64_t> ids(static_cast<std::size_t>(config.data.batch));
  std::iota(ids.begin(), ids.end(), 0);
  BatchBuffer buffer(model.ops());
  const Batch batch = data.gather(ids, buffer);
  const auto logits = model.logits(batch, 0, config.data.batch * config.model.context);
  const auto classes = static_cast<std::size_t>(data.shape().classes);
  for (std::size_t i = 0; i < logits.size(); ++i)
    std::printf("%.9g%c", static_cast<double>(logits[i]), (i + 1) % classes == 0 ? '\n' : ' ');
}

void probe(const char* config_path, const char* data_folder, const char* out, const char* weights) {
  const Config config = load_config(config_path);
  const DataSplit data = load_data(config, data_folder);
  const auto ops = mlk::kernels::make_cpu_ops(1, config.precision);
  const auto model = make_model(config.model, data.train->shape(), config.seed, *ops);
  if (weights) ops->write(read_weights(weights, config.model, model->tensors()), model->parameters());
  write_weights(out, config.model, model->tensors(), ops->read(model->parameters()));
  if (auto* gpt = dynamic_cast<Gpt*>(model.get())) print_logits(*gpt, config, *data.train);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fputs("usage: model_probe CONFIG DATA OUT [WEIGHTS]\n", stderr);
    return 2;
  }
  try {
    probe(argv[1], argv[2], argv[3], argc == 5 ? argv[4] : nullptr);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "model_probe: %s\n", error.what());
    return 1;
  }
}
