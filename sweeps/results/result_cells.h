// Turns one cell of a table of results into text.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace mlk::sweeps {

// Text unchanged, anything else as JSON; "" for null.
std::string plain_cell(const nlohmann::json& value);

}  // namespace mlk::sweeps
