#include "runtime/checkpoint/weights_rules.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mlk::rt {
namespace {

using nlohmann::json;

// A key of config.json. `computed`: the values of the key with which GPT-2 computes the same as our gpt.
// `otherwise`: what our gpt does, for the message about any other value.
struct ComputedKey {
  const char* key;
  std::vector<json> computed;
  std::string otherwise;
};

// Every key of transformers' GPT2Config that changes the result, except the sizes, which the tensors show,
// and dropout, which the run configures.
std::vector<ComputedKey> computed_keys(const ModelConfig& model) {
  return {
      {"n_head", {model.heads}, "model.heads is " + std::to_string(model.heads)},
      // The last three are other names of the same function.
      {"activation_function",
       {"gelu_new", "gelu_pytorch_tanh", "gelu_accurate", "gelu_fast"},
       "a gpt computes with gelu_new"},
      {"layer_norm_epsilon", {1e-5}, "that of a gpt is 1e-05"},
      {"n_inner", {nullptr, 4 * model.width}, "that of a gpt is four times its width"},
      {"scale_attn_weights", {true}, "a gpt scales attention by the root of a head's size"},
      {"scale_attn_by_inverse_layer_idx", {false}, "a gpt does not scale attention by the layer"},
      {"reorder_and_upcast_attn", {false}, "a gpt does not reorder attention"},
      {"add_cross_attention", {false}, "a gpt attends to its own tokens only"},
      {"is_encoder_decoder", {false}, "a gpt is a decoder alone"},
      {"tie_word_embeddings", {true}, "a gpt has one tensor for tokens and logits"},
      {"pruned_heads", {nullptr, json::object()}, "a gpt has all its heads"},
      {"quantization_config", {nullptr}, "a gpt has weights of F32, F16 or BF16"},
      {"auto_map", {nullptr}, "a gpt is computed by no code of its own"},
  };
}

}  // namespace

std::string foreign_format(std::string_view first_bytes) {
  using namespace std::string_view_literals;
  constexpr const char* pickled =
      "it is a file of PyTorch, which can hold programs and is not read: save it again by safetensors' "
      "save_file(), or save_pretrained()";
  static const std::pair<std::string_view, std::string> formats[] = {
      {"PK\x03\x04"sv, pickled},
      {"\x80\x02"sv, pickled},
      {"\x80\x03"sv, pickled},
      {"\x80\x04"sv, pickled},
      {"\x80\x05"sv, pickled},
      {"{"sv,
       "it is JSON, perhaps an index of several files: save the model as one file, by "
       "save_pretrained(max_shard_size=\"100GB\")"},
      {"GGUF"sv, "it is a GGUF file: save the model as safetensors"},
      {"\x89HDF"sv, "it is an HDF5 file, as of TensorFlow: save the model as safetensors"},
      {"\x93NUMPY"sv, "it is an array of NumPy: save the model as safetensors"},
      {"\x1f\x8b"sv, "it is compressed by gzip: unpack it first"},
      {"version https://"sv, "it is a pointer of Git LFS, not the file: fetch it by git lfs pull"},
      {"<"sv, "it is a page of HTML or XML, not the file"},
  };
  const auto* const found = std::ranges::find_if(
      formats, [&](const auto& format) { return first_bytes.starts_with(format.first); });
  return found == std::end(formats) ? "" : found->second;
}

std::string wrapper_of(std::span<const std::string> names) {
  std::string wrapper;
  for (bool longer = !names.empty(); longer;) {
    longer = false;
    for (const char* each : {"module.", "_orig_mod."}) {
      const std::string next = wrapper + each;
      if (!std::ranges::all_of(names, [&](const std::string& name) { return name.starts_with(next); }))
        continue;
      wrapper = next;
      longer = true;
    }
  }
  return wrapper;
}

std::vector<std::string> computed_otherwise(const json& description, const ModelConfig& model) {
  std::vector<std::string> differing;
  for (const auto& [key, computed, otherwise] : computed_keys(model)) {
    const auto value = description.find(key);
    // Numbers are compared as numbers: 1e-05 is 0.00001, and 3 is 3.0.
    if (value == description.end() || std::ranges::find(computed, *value) != computed.end()) continue;
    std::string text = value->dump(-1, ' ', false, json::error_handler_t::replace);
    if (text.size() > 60) text = "set";
    differing.push_back(std::string(key) + " is " + text + ", and " + otherwise);
  }
  return differing;
}

}  // namespace mlk::rt
