// The notations for the values of a parameter, in a file and on the command line. Pure.
#pragma once

#include <optional>
#include <string>

#include "cli/yaml/problems.h"
#include "cli/yaml/yaml.h"
#include "sweeps/space/names.h"
#include "sweeps/space/space.h"

namespace mlk::sweeps {

inline constexpr std::size_t most_values = 100'000;  // of one parameter

// Reads the values of the parameter `path`: a list, one value, or one of {range: [first, last, step]},
// {uniform: [low, high]}, {log_uniform: [low, high]}, {int: [low, high]}, {int: [low, high], log: true},
// {choice: [...]}. A map may also have `when: {PATH: value or list}`. nullopt after adding at least one
// problem.
std::optional<Parameter> read_form(const std::string& path, const YamlNode& node, const Names& names,
                                   Problems& problems);

// Reads a map of paths to values or lists of values, as in `when` and `except`.
std::vector<Condition> read_conditions(const YamlNode& node, const std::string& of, const Names& names,
                                       Problems& problems);

// A word of the command line: lr=0.1,0.01  momentum=0.5..0.9  lr=1e-5..1e-1:log  batch=1..64:log
// layers=1..9:2. Messages about the values point into the word.
struct Word {
  std::string path;  // as written
  Place place;
  YamlNode values;  // as in a file
};
// nullopt after adding at least one problem.
std::optional<Word> read_word(const std::string& word, Problems& problems);

}  // namespace mlk::sweeps
