// Sections whose `type` decides which other keys they have and what their defaults are.
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

// Fills in the defaults of the section's type. Calls `refuse`, with the path of the key (`path` is the
// section's), for keys of other types and for missing ones. Skips a type that the schema refused.
void complete_variant(nlohmann::json& section, const std::string& path, std::span<const Variant> variants,
                      const std::function<void(const std::string& path, const std::string& what)>& refuse);

}  // namespace mlk
