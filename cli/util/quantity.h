// Quantities in the notation of Kubernetes. Pure.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// "500m", "4Gi", "1e3" as a number; nullopt if the text is not a quantity.
std::optional<double> parse_quantity(const std::string& text);
// The quantity in a field of a Kubernetes object: text as above, or a JSON number.
std::optional<double> quantity_of(const nlohmann::json& value);

}  // namespace mlk
