#include "cli/experiment/variants.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/util/text.h"

namespace mlk {

using nlohmann::json;

namespace {

bool has(const Variant& variant, const std::string& key) {
  return std::ranges::any_of(variant.keys, [&](const auto& entry) { return entry.first == key; });
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
                      const std::function<void(const std::string& path, const std::string& what)>& refuse) {
  const auto own = std::ranges::find_if(variants, [&](const Variant& variant) {
    return section.contains("type") && section["type"] == variant.type;
  });
  if (own == variants.end()) return;
  for (const auto& [key, value] : section.items()) {
    if (has(*own, key)) continue;
    std::vector<std::string> types;
    for (const Variant& variant : variants) {
      if (has(variant, key)) types.push_back(variant.type);
    }
    if (types.empty()) continue;  // a key of every type
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

}  // namespace mlk
