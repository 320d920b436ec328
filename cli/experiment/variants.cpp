#include "cli/experiment/variants.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "cli/util/text.h"

namespace mlk {

using nlohmann::json;

namespace {

bool has(const Variant& variant, const std::string& key) {
  return std::ranges::any_of(variant.keys, [&](const auto& entry) { return entry.first == key; });
}

// The defaults of gpt are the sizes of the smallest GPT-2.
std::span<const Variant> model_variants() {
  static const std::vector<Variant> variants = {
      {"mlp", {{"hidden", json::array({128})}}},
      {"cnn", {{"channels", json::array({32, 64})}, {"hidden", json::array({128})}}},
      {"gpt", {{"layers", 12}, {"width", 768}, {"heads", 12}, {"context", 1024}}},
  };
  return variants;
}

std::span<const Variant> data_variants() {
  static const std::vector<Variant> variants = {
      {"idx", {}},
      {"cifar10", {}},
      {"text", {}},
      {"tokens", {{"vocabulary", 50257}}},
  };
  return variants;
}

// Returns the whole number at `key`; nullopt if the key is missing or the schema has refused its value.
std::optional<std::int64_t> whole_in(const json& section, const char* key) {
  const auto found = section.find(key);
  if (found == section.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

}  // namespace

std::span<const Variant> optimizer_variants() {
  static const std::vector<Variant> variants = {
      {"sgd", {{"lr", 0.01}, {"weight_decay", 0.0}, {"momentum", 0.9}, {"nesterov", false}}},
      {"adam", {{"lr", 0.001}, {"weight_decay", 0.0}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}}},
      {"adamw", {{"lr", 0.001}, {"weight_decay", 0.01}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}}},
  };
  return variants;
}

std::span<const Variant> schedule_variants() {
  static const std::vector<Variant> variants = {
      {"constant", {}},
      {"linear", {{"final", 0.0}}},
      {"cosine", {{"final", 0.0}}},
      {"step", {{"every", nullptr}, {"factor", 0.1}}},
  };
  return variants;
}

void complete_variant(json& section, const std::string& path, std::span<const Variant> variants,
                      const RefuseKey& refuse, const std::string& type_key) {
  const auto own = std::ranges::find_if(variants, [&](const Variant& variant) {
    return section.contains(type_key) && section[type_key] == variant.type;
  });
  if (own == variants.end()) return;
  for (const auto& [key, value] : section.items()) {
    if (has(*own, key)) continue;
    std::vector<std::string> types;
    for (const Variant& variant : variants) {
      if (has(variant, key)) types.push_back(variant.type);
    }
    if (types.empty()) continue;  // a key that all types have in common
    refuse(path + "." + key,
           fmt::format("{}.{} is for {}; {} has no use for it", path, key, join(types, " and "), own->type));
  }
  for (const auto& [key, fallback] : own->keys) {
    if (section.contains(key)) continue;
    if (fallback.is_null()) {
      refuse(path, fmt::format("{}.{} is missing: {} needs it", path, key, own->type));
    } else {
      section[key] = fallback;
    }
  }
}

void complete_model(json& model, json& data, const RefuseKey& refuse) {
  complete_variant(model, "train.model", model_variants(), refuse);
  const bool gpt = model.contains("type") && model["type"] == "gpt";
  if (!data.contains("format")) data["format"] = gpt ? "text" : "idx";
  complete_variant(data, "train.data", data_variants(), refuse, "format");
  const bool tokens = data["format"] == "text" || data["format"] == "tokens";
  if (data["format"].is_string() && gpt != tokens) {
    refuse("train.data.format", gpt ? "train.data.format must be text or tokens: train.model.type is gpt"
                                    : fmt::format("train.data.format {} needs train.model.type gpt",
                                                  data["format"].get<std::string>()));
  }
  if (model.contains("channels") && model["channels"].is_array() && model["channels"].empty())
    refuse("train.model.channels", "train.model.channels must name at least one convolution");
  const auto batch = whole_in(data, "batch"), micro_batch = whole_in(data, "micro_batch");
  if (batch && micro_batch && *micro_batch > *batch) {
    refuse("train.data.micro_batch",
           fmt::format("train.data.micro_batch is {}, but train.data.batch is {}", *micro_batch, *batch));
  }
  if (!gpt) return;
  const auto width = whole_in(model, "width"), heads = whole_in(model, "heads"),
             context = whole_in(model, "context"), together = micro_batch ? micro_batch : batch;
  if (width && heads && *heads > 0 && *width % *heads != 0) {
    refuse("train.model.width",
           fmt::format("train.model.width must be a multiple of train.model.heads, which is {}", *heads));
  }
  constexpr std::int64_t most_tokens = 1 << 24;  // the runtime's limit
  if (context && together && *context > 0 && *together > most_tokens / *context) {
    const char* key = micro_batch ? "train.data.micro_batch" : "train.data.batch";
    refuse(key, fmt::format("{} times train.model.context must be at most {} tokens", key, most_tokens));
  }
}

}  // namespace mlk
