// Checks of options that several commands have.
#pragma once

#include <CLI/CLI.hpp>

namespace mlk {

// CLI11's own checks would print the bounds of a double.
CLI::Validator whole_number(int least = 0);
CLI::Validator number_above_zero();

}  // namespace mlk
