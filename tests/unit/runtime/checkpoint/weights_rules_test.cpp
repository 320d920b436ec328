#include "runtime/checkpoint/weights_rules.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/checkpoint/weights_rules");

namespace mlk::rt {
namespace {
namespace weights_rules {

using nlohmann::json;

const ModelConfig model{.type = ModelType::gpt, .layers = 2, .width = 32, .heads = 2, .context = 32};

TEST_CASE("computed_otherwise() reports a key of config.json if its value changes a gpt's computation") {
  struct Row {
    const char* key;
    std::vector<json> taken, refused;
  };
  const Row rows[] = {
      {"n_head", {2, 2.0}, {1, 3, nullptr, "2"}},
      {"activation_function",
       {"gelu_new", "gelu_pytorch_tanh", "gelu_accurate", "gelu_fast"},
       {"gelu", "relu", "silu", "gelu_10", "gelu_python", "quick_gelu", "GELU_NEW", 1}},
      {"layer_norm_epsilon", {1e-5, 0.00001}, {1e-6, 1e-4, 0}},
      {"n_inner", {nullptr, 128}, {127, 129, 64, 32}},
      {"scale_attn_weights", {true}, {false}},
      {"scale_attn_by_inverse_layer_idx", {false}, {true}},
      {"reorder_and_upcast_attn", {false}, {true}},
      {"add_cross_attention", {false}, {true}},
      {"is_encoder_decoder", {false}, {true}},
      {"tie_word_embeddings", {true}, {false}},
      {"pruned_heads", {nullptr, json::object()}, {json{{"0", {1}}}}},
      {"quantization_config", {nullptr}, {json{{"bits", 4}}}},
      {"auto_map", {nullptr}, {json{{"AutoModel", "own.Model"}}}},
      // The run configures dropout, and the other keys change nothing that is trained.
      {"attn_pdrop", {0.0, 0.1}, {}},
      {"initializer_range", {0.3}, {}},
      {"use_cache", {true, false}, {}},
      {"torch_dtype", {"bfloat16"}, {}},
  };
  for (const auto& [key, taken, refused] : rows) {
    CAPTURE(key);
    for (const json& value : taken) CHECK(computed_otherwise({{key, value}}, model).empty());
    for (const json& value : refused) {
      CAPTURE(value.dump());
      const auto lines = computed_otherwise({{key, value}}, model);
      REQUIRE(lines.size() == 1);
      CHECK(lines.front().starts_with(std::string(key) + " is " + value.dump() + ", and "));
    }
  }
}

TEST_CASE("computed_otherwise() reports all settings that differ, and does not show a long value") {
  const json description = {{"n_head", 3}, {"scale_attn_weights", false}, {"auto_map", std::string(80, 'x')}};
  const auto lines = computed_otherwise(description, model);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "n_head is 3, and model.heads is 2");
  CHECK(lines[1] == "scale_attn_weights is false, and a gpt scales attention by the root of a head's size");
  CHECK(lines[2] == "auto_map is set, and a gpt is computed by no code of its own");
  CHECK(computed_otherwise(json::object(), model).empty());
}

TEST_CASE("foreign_format recognises files of other formats by their first bytes") {
  using namespace std::string_literals;
  const std::pair<std::string, const char*> rows[] = {
      {"PK\x03\x04"s, "PyTorch"},     {"\x80\x02}q"s, "PyTorch"}, {"\x80\x05"s, "PyTorch"},
      {"{\n  \"metadata\""s, "JSON"}, {"GGUF\3"s, "GGUF"},        {"\x89HDF\r\n"s, "HDF5"},
      {"\x93NUMPY"s, "NumPy"},        {"\x1f\x8b\x08"s, "gzip"},  {"version https://git-lfs"s, "Git LFS"},
      {"<!doctype html>"s, "HTML"},
  };
  for (const auto& [bytes, word] : rows) {
    CAPTURE(word);
    CHECK(foreign_format(bytes).find(word) != std::string::npos);
  }
  for (const std::string& bytes : {""s, "PK"s, "\x80\x01"s, "\x80\x06"s, "\x80"s, "version 1"s, "\0\0\0\0"s})
    CHECK(foreign_format(bytes).empty());
}

TEST_CASE("wrapper_of() returns the prefix of a wrapper if all names begin with this prefix") {
  const auto of = [](const std::vector<std::string>& names) { return wrapper_of(names); };
  CHECK(of({}) == "");
  CHECK(of({"a", "b"}) == "");
  CHECK(of({"module.a", "b"}) == "");
  CHECK(of({"module.a", "module.b"}) == "module.");
  CHECK(of({"_orig_mod.a"}) == "_orig_mod.");
  CHECK(of({"_orig_mod.module.a", "_orig_mod.module.b"}) == "_orig_mod.module.");
  CHECK(of({"module._orig_mod.a", "module.b"}) == "module.");
  CHECK(of({"modules.a", "modules.b"}) == "");
}

}  // namespace weights_rules
}  // namespace
}  // namespace mlk::rt
