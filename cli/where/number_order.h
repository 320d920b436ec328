// How values of trials compare. Numbers do exactly: a double does not hold every whole number beyond 2^53.
// Pure.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mlk::sweeps {

// Both are numbers.
std::partial_ordering order_of_numbers(const nlohmann::json& a, const nlohmann::json& b);

// Whether they are equal, the numbers in them by their value: [1, 2] and [1.0, 2] are.
bool are_equal(const nlohmann::json& a, const nlohmann::json& b);

// The number that the text is wholly (number_of_word()); nothing if it is none.
std::optional<nlohmann::json> number_in(std::string_view text);

}  // namespace mlk::sweeps
