// Quantities as Kubernetes writes them. Pure.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// "500m", "4Gi", "1e3" as a number; nullopt when it is none.
std::optional<double> parse_quantity(const std::string& text);
// The same of a value of an object, which may be a number.
std::optional<double> quantity_of(const nlohmann::json& value);

}  // namespace mlk
