// Reads numbers in the output of programs and in what users type. The only reader of such numbers. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mlk {

// A decimal number that is the whole word: "12", "-0.5", ".5", "1e-3"; also nan, inf and infinity in any
// case. "12,000", "0.5x", "0x10", "1_000" and "5%" are none. Beyond the range of a double it is infinite or
// 0.
std::optional<double> number_of_word(std::string_view word);

// The same with signs beside it that belong to no number: "0.5,", "(0.5)", "'0.5'.", "0.5%". What stands
// between digits does: "12,000" is no number.
std::optional<double> number_beside_signs(std::string_view text);

// A whole number of an int, which is the whole text; or `otherwise`.
int parse_int(std::string_view text, int otherwise);

// "nan", "inf" or "-inf": the form in which numbers that JSON lacks are kept. Empty for any other number.
std::string word_of_number(double value);

}  // namespace mlk
