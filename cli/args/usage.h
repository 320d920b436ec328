// The error of a command line that CLI11 refuses, with mlk's own message.
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

// Searches the command line for the wrong word. Reports an unknown word before any other problem, such as a
// missing argument.
UsageProblem explain(const CLI::ParseError& error, const CLI::App& root,
                     const std::vector<std::string>& arguments);

// The first unknown word in a command line with --help: neither a command nor a flag. Empty if all words are
// known.
UsageProblem unknown_word(const CLI::App& root, const std::vector<std::string>& arguments);

}  // namespace mlk
