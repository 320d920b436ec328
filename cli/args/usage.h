// What is wrong with a command line that CLI11 refuses, in mlk's own words.
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

// Looks for the word at fault itself: an unknown word is reported before anything else that CLI11 misses.
UsageProblem explain(const CLI::ParseError& error, const CLI::App& root,
                     const std::vector<std::string>& arguments);

// The first word that is no command or flag, for a command line that asks for help. Empty: all are known.
UsageProblem unknown_word(const CLI::App& root, const std::vector<std::string>& arguments);

}  // namespace mlk
