// Compares values of trials. Compares numbers exactly, although a double does not hold every whole number
// beyond 2^53. Pure.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mlk::sweeps {

// Both values must be numbers.
std::partial_ordering order_of_numbers(const nlohmann::json& a, const nlohmann::json& b);

// Whether the values are equal, with all numbers in them compared by value: [1, 2] equals [1.0, 2].
bool are_equal(const nlohmann::json& a, const nlohmann::json& b);

// The number, if the whole text is a number (number_of_word()); nullopt for any other text.
std::optional<nlohmann::json> number_in(std::string_view text);

}  // namespace mlk::sweeps
