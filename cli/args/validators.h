// Checks of options that several commands have.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace mlk {

// CLI11's own validators would print the bounds of a double, and sets, in their messages.
CLI::Validator whole_number(int least = 0);
CLI::Validator number_above_zero();
// Help and completion read the words from its description, "{a,b}".
CLI::Validator one_of(std::vector<std::string> words);

}  // namespace mlk
