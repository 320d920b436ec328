// Sections of which one key, the `type` of most, decides which other keys they have and what their defaults
// are.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk {

// The keys that one type has in addition to the common ones; null: it must be given.
struct Variant {
  std::string type;
  std::vector<std::pair<std::string, nlohmann::json>> keys;
};

std::span<const Variant> optimizer_variants();
std::span<const Variant> schedule_variants();

using RefuseKey = std::function<void(const std::string& path, const std::string& what)>;

// Fills in the defaults of the section's type. Calls `refuse`, with the path of the key (`path` is the
// section's), for keys of other types and for missing ones. Skips a type that the schema refused.
void complete_variant(nlohmann::json& section, const std::string& path, std::span<const Variant> variants,
                      const RefuseKey& refuse, const std::string& type_key = "type");

// The same for train.model and train.data, whose format depends on the model. Also refuses data that the
// model cannot take, and sizes that do not fit together.
void complete_model(nlohmann::json& model, nlohmann::json& data, const RefuseKey& refuse);

}  // namespace mlk
