// Reads numbers in the output of programs and in what users type. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mlk {

// A decimal number that is the whole word: "12", "-0.5", ".5", "1e-3"; also nan, inf and infinity in any
// case. "12,000", "0.5x", "0x10", "1_000" and "5%" are no numbers. A number beyond the range of a double
// becomes infinite or 0.
std::optional<double> number_of_word(std::string_view word);

// Like number_of_word(), but first removes punctuation around the number: "0.5,", "(0.5)", "'0.5'.", "0.5%".
// Punctuation between digits is not removed: "12,000" is no number.
std::optional<double> number_beside_signs(std::string_view text);

// The whole text as an int; `otherwise` if the text is not a whole number in the range of an int.
int parse_int(std::string_view text, int otherwise);

// "nan", "inf" or "-inf": mlk stores these words because JSON has no such numbers. Empty for other numbers.
std::string word_of_number(double value);

}  // namespace mlk
