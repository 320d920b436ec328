#include "runtime/checkpoint/weights_file.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/reference/reference_ops.h"
#include "runtime/base/exit_code.h"
#include "runtime/base/random.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/checkpoint/safetensors.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/checkpoint/weights_file");

using namespace mlk::rt;
using namespace mlk::test;

namespace {

const ModelConfig small_gpt{.type = ModelType::gpt, .layers = 2, .width = 6, .heads = 2, .context = 5};
constexpr int vocabulary = 11;

std::vector<TensorInfo> tensors_of(const ModelConfig& config, const SampleShape& shape) {
  const auto ops = mlk::kernels::make_reference_ops();
  return make_model(config, shape, 1, *ops)->tensors();
}

const std::vector<TensorInfo>& tensors_of_gpt() {
  static const auto tensors = tensors_of(small_gpt, {5, vocabulary, 5});
  return tensors;
}

// A tensor of a file: its shape and type in the header, and its bytes.
struct Stored {
  std::vector<std::int64_t> shape;
  std::string bytes, type = "F32";
};
using Tensors = std::map<std::string, Stored>;

std::string file_of(const Tensors& tensors) {
  std::vector<SafeTensor> named;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    named.push_back({name, tensor.shape, data.size(), tensor.bytes.size(), tensor.type});
    data += tensor.bytes;
  }
  return safetensors_header(named, {}) + data;
}

template <typename Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  std::string bytes(numbers.size() * sizeof(Number), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::vector<float> numbers_of(const TensorInfo& tensor) {
  std::vector<float> numbers(tensor.size);
  for (std::size_t i = 0; i < tensor.size; ++i) numbers[i] = normal(3, 0, tensor.offset + i);
  return numbers;
}

// The tensors as in GPT-2's file on Hugging Face's hub: their names lack the prefix, and masks are among
// them.
Tensors of_the_hub() {
  Tensors tensors;
  for (const TensorInfo& tensor : tensors_of_gpt())
    tensors[tensor.name.substr(12)] = {tensor.shape, bytes_of(numbers_of(tensor))};
  for (const char* block : {"h.0.", "h.1."}) {
    tensors[std::string(block) + "attn.bias"] = {{1, 1, 5, 5}, std::string(25, '\1'), "U8"};
    tensors[std::string(block) + "attn.masked_bias"] = {{}, bytes_of<float>({-1e4f})};
  }
  return tensors;
}

struct Folder {
  TemporaryFolder folder;
  std::string path = folder / "model.safetensors";

  mlk::kernels::Floats read(const ModelConfig& model = small_gpt,
                            const std::vector<TensorInfo>& tensors = tensors_of_gpt()) const {
    return read_weights(path, model, tensors);
  }
  // The message about the file, without the file's name. Checks the code, too.
  std::string refusal(const std::string& file, ExitCode code = ExitCode::bad_configuration,
                      const ModelConfig& model = small_gpt) const {
    write_file(path, file);
    try {
      read(model);
    } catch (const Failure& failure) {
      CHECK(failure.code == code);
      const std::string what = failure.what();
      return what.starts_with(path + ": ") ? what.substr(path.size() + 2) : what;
    }
    return "taken";
  }
  std::string refusal_after(const std::function<void(Tensors&)>& change,
                            ExitCode code = ExitCode::bad_configuration) const {
    Tensors tensors = of_the_hub();
    change(tensors);
    return refusal(file_of(tensors), code);
  }
};

void require_the_numbers(const mlk::kernels::Floats& parameters) {
  REQUIRE(parameters.size() == parameter_count(tensors_of_gpt()));
  for (std::size_t i = 0; i < parameters.size(); ++i) CHECK(parameters[i] == normal(3, 0, i));
}

}  // namespace

TEST_CASE("weights of GPT-2 are read with and without the common prefix and the output layer") {
  const Folder of;
  write_file(of.path, file_of(of_the_hub()));
  require_the_numbers(of.read());
  Tensors tensors;
  for (auto& [name, tensor] : of_the_hub()) tensors["transformer." + name] = tensor;
  tensors["lm_head.weight"] = tensors["transformer.wte.weight"];
  write_file(of.path, file_of(tensors));
  require_the_numbers(of.read());
}

TEST_CASE(
    "write_weights() writes the files of Hugging Face's GPT-2, and does not change the bytes of the "
    "weights") {
  const Folder of;
  write_file(of.path, file_of(of_the_hub()));
  write_weights(of.folder.path() / "new", small_gpt, tensors_of_gpt(), of.read());
  const std::string again = read_file(of.folder.path() / "new" / "model.safetensors");
  const SafeTensorsFile parsed = parse_safetensors(again, again.size());
  CHECK(parsed.metadata == std::map<std::string, std::string>{{"format", "pt"}});
  CHECK(parsed.tensors.size() == tensors_of_gpt().size());
  const Tensors first = of_the_hub();
  for (const SafeTensor& tensor : parsed.tensors) {
    REQUIRE(tensor.name.starts_with("transformer."));
    const Stored& stored = first.at(tensor.name.substr(12));
    CHECK(tensor.shape == stored.shape);
    CHECK(again.substr(parsed.data_begin + tensor.offset, tensor.size) == stored.bytes);
  }
  CHECK(read_file(of.folder.path() / "new" / "config.json") == R"({
  "activation_function": "gelu_new",
  "architectures": [
    "GPT2LMHeadModel"
  ],
  "attn_pdrop": 0.0,
  "bos_token_id": null,
  "embd_pdrop": 0.0,
  "eos_token_id": null,
  "layer_norm_epsilon": 1e-05,
  "model_type": "gpt2",
  "n_embd": 6,
  "n_head": 2,
  "n_layer": 2,
  "n_positions": 5,
  "resid_pdrop": 0.0,
  "vocab_size": 11
}
)");
  write_weights(of.folder.path() / "new", small_gpt, tensors_of_gpt(), of.read());  // replaces both
  CHECK(read_file(of.folder.path() / "new" / "model.safetensors") == again);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(of.folder.path() / "new"))
    files += entry.is_regular_file();
  CHECK(files == 2);
}

TEST_CASE("if a model is not a GPT, its weights are read by the names of its tensors") {
  const Folder of;
  const ModelConfig mlp{.hidden = {3}};
  const auto tensors = tensors_of(mlp, {4, 2});
  mlk::kernels::Floats numbers(parameter_count(tensors));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = normal(5, 0, i);
  write_weights(of.folder.path(), mlp, tensors, numbers);
  CHECK(of.read(mlp, tensors) == numbers);
  CHECK(!std::filesystem::exists(of.folder.path() / "config.json"));
  const auto wider = tensors_of({.hidden = {4}}, {4, 2});
  try {
    of.read({.hidden = {4}}, wider);
    FAIL("taken");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::bad_configuration);
    CHECK(std::string(failure.what()) == of.path + ": layers.0.weight is [3, 4], and the model's is [4, 4]");
  }
}

TEST_CASE(
    "tensors of float16 and bfloat16 are read as the floats that they represent, and a NaN or infinity is "
    "refused") {
  const Folder of;
  const TensorInfo bias{"b", {10}, 0, 10};
  const auto read_as = [&](const std::string& type, const std::vector<std::uint16_t>& bits) {
    write_file(of.path, file_of({{"b", {{10}, bytes_of(bits), type}}}));
    return read_weights(of.path, {}, std::vector{bias});
  };
  const auto halves =
      read_as("F16", {0x0000, 0x8000, 0x3c00, 0xc000, 0x7bff, 0x0400, 0x03ff, 0x8001, 0xfbff, 0x3555});
  const float expected[] = {0, 0, 1, -2, 65504, 0x1p-14f, 0x1.ff8p-15f, -0x1p-24f, -65504, 0x1.554p-2f};
  for (std::size_t i = 0; i < std::size(expected); ++i) CHECK(halves[i] == expected[i]);
  CHECK(std::signbit(halves[1]));
  const auto brains =
      read_as("BF16", {0x0000, 0x8000, 0x3f80, 0xc000, 0x3f81, 0x7f7f, 0xff7f, 0x0080, 1, 0x4049});
  for (std::size_t i = 0; i < brains.size(); ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(brains[i]);
    CHECK((bits & 0xffff) == 0);
    CHECK((bits >> 16) == std::vector<std::uint32_t>{0x0000, 0x8000, 0x3f80, 0xc000, 0x3f81, 0x7f7f, 0xff7f,
                                                     0x0080, 1, 0x4049}[i]);
  }
  // A NaN is refused, and the message has the tensor's name in the file.
  const auto refused = [&](const std::string& type, const std::string& bytes) {
    write_file(of.path, file_of({{"b", {{10}, bytes, type}}}));
    try {
      read_weights(of.path, {}, std::vector{bias});
    } catch (const Failure& failure) {
      CHECK(failure.code == ExitCode::bad_data);
      return std::string(failure.what()).substr(of.path.size() + 2);
    }
    return std::string("taken");
  };
  std::vector<float> floats(10, 1);
  floats[9] = NAN;
  const std::string after = ": no model can be trained from it";
  CHECK(refused("F32", bytes_of(floats)) == "b holds NaN" + after);
  floats[9] = -INFINITY;
  CHECK(refused("F32", bytes_of(floats)) == "b holds infinite numbers" + after);
  CHECK(refused("F16", bytes_of(std::vector<std::uint16_t>(10, 0x7c00))) ==
        "b holds infinite numbers" + after);
  CHECK(refused("F16", bytes_of(std::vector<std::uint16_t>(10, 0x7e01))) == "b holds NaN" + after);
  CHECK(refused("BF16", bytes_of(std::vector<std::uint16_t>(10, 0x7fc0))) == "b holds NaN" + after);
}

TEST_CASE("a tensor of 16-bit numbers is complete even if it is converted in several pieces") {
  const Folder of;
  constexpr std::size_t size = 200'000;
  std::vector<std::uint16_t> bits(size);
  for (std::size_t i = 0; i < size; ++i) bits[i] = static_cast<std::uint16_t>(i % 0x7f80);
  write_file(of.path, file_of({{"a", {{1}, bytes_of<std::uint16_t>({0x3f80}), "BF16"}},
                               {"b", {{size}, bytes_of(bits), "BF16"}}}));
  const std::vector<TensorInfo> tensors = {{"b", {size}, 0, size}, {"a", {1}, size, 1}};
  const auto floats = read_weights(of.path, {}, tensors);
  CHECK(floats.back() == 1);
  bool right = true;
  for (std::size_t i = 0; i < size; ++i) right &= std::bit_cast<std::uint32_t>(floats[i]) >> 16 == bits[i];
  CHECK(right);
}

TEST_CASE(
    "weights of a GPT of another size are refused, and the message says which sizes the experiment must "
    "have") {
  const Folder of;
  const std::string file = file_of(of_the_hub());
  const auto refusal = [&](ModelConfig model) {
    return of.refusal(file, ExitCode::bad_configuration, model);
  };
  ModelConfig model = small_gpt;
  model.layers = 3;
  CHECK(refusal(model) == "it is of a GPT of another size: write model: {layers: 2}");
  model = {.type = ModelType::gpt, .layers = 1, .width = 8, .heads = 2, .context = 4};
  CHECK(refusal(model) == "it is of a GPT of another size: write model: {layers: 2, width: 6, context: 5}");
  const auto bytes = tensors_of(small_gpt, {5, 256, 5});
  try {
    of.read(small_gpt, bytes);
    FAIL("taken");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::bad_configuration);
    CHECK(std::string(failure.what()) ==
          of.path + ": it is of a GPT with other tokens: write data: {format: tokens, vocabulary: 11}");
  }
}

TEST_CASE("a config.json of GPT-2 beside the weights must match the model") {
  const Folder of;
  const std::string file = file_of(of_the_hub()), description = of.folder / "config.json";
  const auto refusal = [&](const std::string& text) {
    write_file(description, text);
    return of.refusal(file);
  };
  CHECK(refusal(R"({"model_type": "gpt2", "n_head": 2})") == "taken");
  CHECK(refusal(R"({"model_type": "gpt2", "n_head": 3})") ==
        description + ": n_head is 3, and model.heads is 2");
  CHECK(refusal(R"({"model_type": "gpt2", "activation_function": "relu"})") ==
        description + ": activation_function is \"relu\", and a gpt computes with gelu_new");
  CHECK(refusal(R"({"model_type": "gpt2", "layer_norm_epsilon": 1e-6})") ==
        description + ": layer_norm_epsilon is 1e-06, and that of a gpt is 1e-05");
  // These texts do not describe the weights.
  for (const char* text :
       {"", "[", "[]", "7", R"({"n_head": 3})", R"({"model_type": "bert", "n_head": 3})"}) {
    CAPTURE(text);
    CHECK(refusal(text) == "taken");
  }
}

TEST_CASE(
    "a file is refused if its tensors differ from those of the model, and the message names a tensor that "
    "differs") {
  const Folder of;
  CHECK(of.refusal_after([](Tensors& tensors) { tensors.erase("h.1.ln_2.bias"); }) ==
        "it lacks the model's tensor transformer.h.1.ln_2.bias");
  CHECK(of.refusal_after([](Tensors& tensors) { tensors.erase("wte.weight"); }) ==
        "it lacks the model's tensor transformer.wte.weight");
  CHECK(of.refusal_after([](Tensors& tensors) { tensors["h.0.mlp.c_fc.weight"].shape = {24, 6}; }) ==
        "h.0.mlp.c_fc.weight is [24, 6], and the model's is [6, 24]");
  CHECK(of.refusal_after([](Tensors& tensors) { tensors["wte.weight"].shape = {66}; }) ==
        "wte.weight is [66], and the model's is [11, 6]");
  CHECK(of.refusal_after([](Tensors& tensors) { tensors["score.weight"] = {{1}, "1234"}; }) ==
        "the model has no tensor score.weight");
  CHECK(of.refusal_after([](Tensors& tensors) { tensors["h.0.attn.other"] = {{1}, "1234"}; }) ==
        "the model has no tensor h.0.attn.other");
  CHECK(of.refusal_after([](Tensors& tensors) { tensors["lm_head.weight"] = {{1}, "1234"}; }) ==
        "lm_head.weight has not the shape of transformer.wte.weight");
  CHECK(of.refusal_after([](Tensors& tensors) {
    tensors["lm_head.weight"] = tensors["wte.weight"];
    tensors["lm_head.weight"].bytes.back() ^= 1;
  }) == "lm_head.weight differs from transformer.wte.weight, and a gpt has one tensor for both");
  CHECK(of.refusal_after([](Tensors& tensors) { tensors["transformer.wpe.weight"] = tensors["wpe.weight"]; },
                         ExitCode::bad_data) == "it has transformer.wpe.weight twice");
  CHECK(of.refusal_after([](Tensors& tensors) { tensors["ln_f.bias"] = {{6}, std::string(48, '\0'), "F64"}; },
                         ExitCode::bad_data) == "ln_f.bias has the type F64; F32, F16 and BF16 can be read");
}

TEST_CASE("prefixes of PyTorch's wrappers are removed from the names of tensors") {
  const Folder of;
  const auto wrapped = [&](const std::string& wrapper) {
    Tensors tensors;
    for (auto& [name, tensor] : of_the_hub()) tensors[wrapper + name] = tensor;
    return of.refusal(file_of(tensors));
  };
  for (const char* wrapper : {"_orig_mod.", "module.", "module._orig_mod.", "_orig_mod.module.",
                              "_orig_mod.transformer.", "module.transformer."})
    CHECK(wrapped(wrapper) == "taken");
  CHECK(wrapped("net.") ==
        "it has no tensor h.0.ln_1.weight, and so is of no GPT-2; one of its tensors is "
        "net.h.0.attn.bias");
  CHECK(of.refusal_after([](Tensors& tensors) {
    tensors["module.ln_f.bias"] = tensors["ln_f.bias"];
    tensors.erase("ln_f.bias");
  }) == "it lacks the model's tensor transformer.ln_f.bias");
}

TEST_CASE("if a file of weights has another format, the message names this format") {
  const Folder of;
  const auto refusal = [&](const std::string& file) { return of.refusal(file, ExitCode::bad_data); };
  CHECK(refusal(std::string("PK\x03\x04\0\0\x08\x08\0\0\0\0", 12)).starts_with("it is a file of PyTorch"));
  CHECK(refusal(R"({"metadata": {"total_size": 1}, "weight_map": {}})")
            .starts_with("it is JSON, perhaps an index"));
  CHECK(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:0\n").find("git lfs pull") !=
        std::string::npos);
}

TEST_CASE("a file of weights is refused if it is empty, cut off, too long or missing") {
  const Folder of;
  const std::string whole = file_of(of_the_hub());
  const auto refusal = [&](const std::string& file) { return of.refusal(file, ExitCode::bad_data); };
  CHECK(refusal("") == "safetensors: no header");
  CHECK(refusal(whole.substr(0, 100)) == "safetensors: the header is longer than the file");
  CHECK(refusal(whole.substr(0, whole.size() - 1)).ends_with(" lies outside of the file"));
  CHECK(refusal(whole + "1") == "safetensors: bytes after the last tensor");
  std::string length(8, '\0');
  length[3] = 2;  // 32 MiB
  CHECK(refusal(length + std::string(std::size_t{33} << 20, ' ')) ==
        "safetensors: the header is longer than 16 MiB");
  std::filesystem::remove(of.path);
  CHECK_THROWS_WITH_AS(of.read(), (of.path + ": No such file or directory").c_str(), Failure);
  std::filesystem::create_directory(of.path);
  CHECK_THROWS_AS(of.read(), Failure);
}

TEST_CASE("write_weights() leaves no files behind if it fails") {
  const Folder of;
  write_file(of.path, file_of(of_the_hub()));
  const auto parameters = of.read();
  const auto folder = of.folder.path() / "new";
  std::filesystem::create_directories(folder / "model.safetensors" / "in the way");
  CHECK_THROWS_AS(write_weights(folder, {}, tensors_of_gpt(), parameters), std::exception);
  std::size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) entries += !entry.path().empty();
  CHECK(entries == 1);
}
