// Checks the values of options that several commands have.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace mlk {

// Replaces a validator of CLI11, whose message shows the bound as a double.
CLI::Validator whole_number(int least = 0);
CLI::Validator number_above_zero();
// Replaces a validator of CLI11, whose message shows the words as a set. Help and completion read the words
// from the description of the validator, "{a,b}".
CLI::Validator one_of(std::vector<std::string> words);

}  // namespace mlk
