// What the author of a file probably meant.
#pragma once

#include <string>
#include <string_view>

#include "cli/experiment/schema.h"
#include "cli/experiment/yaml.h"

namespace mlk {

// Advice on a key that `section` does not have, to follow the problem: "; did you mean
// 'train.optimizer.lr'?". `path` is what messages call the section, "" for the file. Empty when nothing is
// near.
std::string suggest_key(const std::string& written, const Section& section, const std::string& path);

// Advice on a value that stands where `section` is due: "; write workers: {count: 3}".
std::string suggest_section(const YamlNode& value, std::string_view section, const std::string& path);

// Advice on text that is no choice of "a|b|c": "; did you mean 'adam'?".
std::string suggest_choice(const std::string& written, std::string_view choices);

}  // namespace mlk
