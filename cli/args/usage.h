// Explains in mlk's own words why CLI11 refuses a command line.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace mlk {

struct UsageProblem {
  std::string what;
  std::string hint;  // the next thing to type
};

// Searches the command line for the word at fault. Reports an unknown word before any other problem, such as
// a missing argument.
UsageProblem explain(const CLI::ParseError& error, const CLI::App& root,
                     const std::vector<std::string>& arguments);

// For a command line with --help: the first word that is neither a known command nor a known flag. Empty if
// there is no such word.
UsageProblem unknown_word(const CLI::App& root, const std::vector<std::string>& arguments);

// Whether the words after "--" belong to the program of an experiment, not to the command of mlk that the
// words before name.
bool passes_words_on(const CLI::App& command);
const CLI::App& command_of(const CLI::App& root, const std::vector<std::string>& arguments);

}  // namespace mlk
