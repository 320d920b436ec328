// What the words of a command line mean as arguments of the program. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/yaml/problems.h"
#include "cli/yaml/yaml.h"

namespace mlk {

// Adds `words` to the end of the program of the experiment `root`, a map. Each `--NAME VALUE` or
// `--NAME=VALUE` becomes the value of args.NAME, so that it is a parameter like any other. If the file has
// args.NAME, the value replaces it. The program gets all other words in their order. A word that stands
// between them, such as `${args.NAME}`, keeps the place of each value.
// Does nothing if `words` is empty.
void append_arguments(YamlNode& root, const std::vector<std::string>& words, Problems& problems);

// Sets `run`, `args` and, if all arguments have the form --NAME=VALUE, `args_style` of the experiment `root`
// to the program that `words` start.
void set_program(YamlNode& root, const std::vector<std::string>& words, Problems& problems);

}  // namespace mlk
