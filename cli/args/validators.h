// Checks of values of options, for options of several commands.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace mlk {

// These validators replace those of CLI11, whose messages show bounds as doubles and words as sets.
CLI::Validator whole_number(int least = 0);
CLI::Validator number_above_zero();
// Help and completion read the words from the description of the validator, "{a,b}".
CLI::Validator one_of(std::vector<std::string> words);

}  // namespace mlk
