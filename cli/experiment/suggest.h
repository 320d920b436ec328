// Guesses the intention of the author of a file.
#pragma once

#include <string>
#include <string_view>

#include "cli/experiment/schema.h"
#include "cli/yaml/yaml.h"

namespace mlk {

// Advice on a key that `section` does not have, to be appended to the problem: "; did you mean
// 'train.optimizer.lr'?". Empty if there is no advice. `path`: the section in messages, "" for the file.
std::string suggest_key(const std::string& written, const Section& section, const std::string& path);

// Advice if the file has a scalar value in the place of a `section`: "; write workers: {count: 3}".
std::string suggest_section(const YamlNode& value, std::string_view section, const std::string& path);

// Advice on text that is not one of the choices "a|b|c": "; did you mean 'adam'?".
std::string suggest_choice(const std::string& written, std::string_view choices);

}  // namespace mlk
