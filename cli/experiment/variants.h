// Sections whose `type` decides which other keys they have, and their defaults.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk {

// The keys that one type has beside those of every type; null: it must be given.
struct Variant {
  std::string type;
  std::vector<std::pair<std::string, nlohmann::json>> keys;
};

std::span<const Variant> optimizer_variants();
std::span<const Variant> schedule_variants();

// Fills in the defaults of the section's type. What belongs to other types only, or is missing, is told to
// `refuse`, with the path of the key: `path` is the section's. A type that the schema refused is left alone.
void complete_variant(nlohmann::json& section, const std::string& path, std::span<const Variant> variants,
                      const std::function<void(const std::string& path, const std::string& what)>& refuse);

}  // namespace mlk
