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

// Searches for the word at fault itself. Reports an unknown word before anything else that CLI11 misses.
UsageProblem explain(const CLI::ParseError& error, const CLI::App& root,
                     const std::vector<std::string>& arguments);

// The first word that is no command or flag, in a command line with --help. Empty: all words are known.
UsageProblem unknown_word(const CLI::App& root, const std::vector<std::string>& arguments);

}  // namespace mlk
