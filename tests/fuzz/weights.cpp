// Files of weights: any bytes, or nearly right tensors of a small GPT. The description beside them has any
// text.
#include <cstdint>
#include <fuzzer/FuzzedDataProvider.h>
#include <string>
#include <vector>

#include "kernels/reference/reference_ops.h"
#include "runtime/base/exit_code.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/weights_file.h"
#include "tests/fuzz/demand.h"
#include "tests/unit/runtime/temporary_folder.h"

using namespace mlk::rt;
using mlk::fuzz::demand;
namespace test = mlk::test;

namespace {

const ModelConfig config{.type = ModelType::gpt, .layers = 1, .width = 2, .heads = 1, .context = 3};

const std::vector<TensorInfo>& tensors_of_model() {
  static const auto ops = mlk::kernels::make_reference_ops();
  static const auto model = make_model(config, {3, 4, 3}, 1, *ops);
  return model->tensors();
}

// Changes the name, type, shape or size of the tensor.
void change(SafeTensor& tensor, FuzzedDataProvider& input) {
  switch (input.ConsumeIntegralInRange(0, 4)) {
    case 0:
      tensor.name = input.PickValueInArray({"lm_head.weight", "transformer.h.0.attn.bias", "wte.weight",
                                            "h.7.ln_1.weight", "transformer.h.-1.x", "h.", ""});
      break;
    case 1:
      tensor.type = input.PickValueInArray({"F16", "BF16", "F64", "U8", "F32", ""});
      if (tensor.type == "F16" || tensor.type == "BF16") tensor.size /= 2;
      break;
    case 2:
      tensor.shape = {input.ConsumeIntegral<std::int64_t>()};
      break;
    case 3:
      tensor.size = input.ConsumeIntegralInRange<std::size_t>(0, 64);
      break;
    default:
      tensor.name.erase(0, input.ConsumeIntegralInRange<std::size_t>(0, tensor.name.size()));
  }
}

std::string nearly_right(FuzzedDataProvider& input) {
  std::vector<SafeTensor> tensors;
  const bool prefixed = input.ConsumeBool();
  const int left_out = input.ConsumeIntegralInRange(-1, 30), changed = input.ConsumeIntegralInRange(-1, 30);
  int at = 0;
  for (const TensorInfo& tensor : tensors_of_model()) {
    const int place = at++;
    if (place == left_out) continue;
    constexpr std::size_t prefix = 12;
    tensors.push_back(
        {prefixed ? tensor.name : tensor.name.substr(prefix), tensor.shape, 0, tensor.size * sizeof(float)});
    if (place == changed) change(tensors.back(), input);
  }
  if (input.ConsumeBool()) tensors.push_back({"lm_head.weight", {4, 2}, 0, 32});
  std::size_t end = 0;
  for (SafeTensor& tensor : tensors) {
    tensor.offset = end;
    end += tensor.size;
  }
  std::string file = safetensors_header(tensors, {});
  file.resize(file.size() + end, static_cast<char>(input.ConsumeIntegral<std::uint8_t>()));
  if (input.ConsumeBool()) file.resize(input.ConsumeIntegralInRange<std::size_t>(0, file.size()));
  return file;
}

std::string description(FuzzedDataProvider& input) {
  if (input.ConsumeBool()) return input.ConsumeRandomLengthString(100);
  return R"({"model_type":"gpt2","n_head":)" + input.ConsumeRandomLengthString(10) + "}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test::TemporaryFolder folder;
  FuzzedDataProvider input(data, size);
  test::write_file(folder / "config.json", description(input));
  test::write_file(folder / "model.safetensors",
                   input.ConsumeBool() ? nearly_right(input) : input.ConsumeRemainingBytesAsString());
  try {
    const auto parameters = read_weights(folder / "model.safetensors", config, tensors_of_model());
    demand(parameters.size() == parameter_count(tensors_of_model()));
  } catch (const Failure& failure) {
    demand(failure.code == ExitCode::bad_data || failure.code == ExitCode::bad_configuration);
  }
  return 0;
}
