// One line that says how things stand: rewritten in place on a terminal, printed when it changes elsewhere.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>

namespace mlk::ui {

class Progress {
 public:
  // `width` gives the columns of the terminal at the moment of writing.
  Progress(std::ostream& out, bool terminal, std::function<std::size_t()> width);
  ~Progress();  // ends the live line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // On a terminal: `text` replaces the live line. Elsewhere: `plain` is printed when it differs from the last
  // one, so that a log gets a line per phase, not per step.
  void show(const std::string& text, const std::string& plain);
  // A line that stays, above the live one.
  void say(const std::string& line);
  void clear();  // takes the live line away

 private:
  std::ostream& out_;
  const bool terminal_;
  std::function<std::size_t()> width_;
  std::string live_, last_plain_;
};

}  // namespace mlk::ui
