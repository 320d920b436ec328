// Sections in which one key (mostly `type`) decides the other keys and their defaults.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk {

// One type, with those of its keys that some other type lacks, and their defaults. The default null means
// that the file must give the key.
struct Variant {
  std::string type;
  std::vector<std::pair<std::string, nlohmann::json>> keys;
};

std::span<const Variant> optimizer_variants();
std::span<const Variant> schedule_variants();

using RefuseKey = std::function<void(const std::string& path, const std::string& what)>;

// Fills in the defaults of the section's type. For each key that only other types have, calls `refuse` with
// the path of this key. For each missing key without a default, calls `refuse` with the path of the section.
// Does nothing if the schema has refused the type. `path`: the path of the section.
void complete_variant(nlohmann::json& section, const std::string& path, std::span<const Variant> variants,
                      const RefuseKey& refuse, const std::string& type_key = "type");

// Calls complete_variant() for train.model and train.data. The default format of the data depends on the
// model. Also refuses a format that the model cannot read, and sizes that do not fit together.
void complete_model(nlohmann::json& model, nlohmann::json& data, const RefuseKey& refuse);

}  // namespace mlk
