// A status line that mlk rewrites in place on a terminal, and lines that stay.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>

namespace mlk::ui {

// A bar of `width` columns: done, in progress, and the rest of `all`. A share above zero gets at least one
// column; a share below `all` leaves at least one column free.
// With `ascii` the bar is drawn with "#+.".
std::string bar(std::size_t width, std::size_t done, std::size_t under_way, std::size_t all,
                bool ascii = false);

class Progress {
 public:
  // `width` gives the columns of the terminal at the time of writing.
  Progress(std::ostream& out, bool terminal, std::function<std::size_t()> width, bool ascii = false);
  ~Progress();  // ends the live line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Whether there is a live line; a log file has none.
  bool live() const { return terminal_; }
  // Replaces the live line by `text`, if there is a live line.
  void show(const std::string& text);
  // A line that stays, above the live one.
  void print(const std::string& line);
  void clear();  // removes the live line

 private:
  std::ostream& out_;
  const bool terminal_;
  std::function<std::size_t()> width_;
  const bool ascii_;
  std::string live_;
};

}  // namespace mlk::ui
