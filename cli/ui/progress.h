// A status line that mlk rewrites in place on a terminal, and lines that stay.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>

namespace mlk::ui {

// A bar of `width` columns for the parts of `all` that are done, under way, and not begun. If `done` is above
// zero, the first part has at least one column. If not all is done, the first part leaves at least one column
// free. With `ascii` the bar is drawn with "#+.".
std::string bar(std::size_t width, std::size_t done, std::size_t under_way, std::size_t all,
                bool ascii = false);

class Progress {
 public:
  // `width` returns the present number of columns of the terminal.
  Progress(std::ostream& out, bool terminal, std::function<std::size_t()> width, bool ascii = false);
  ~Progress();  // removes the live line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Whether show() writes a live line. This is false if the output is no terminal.
  bool live() const { return terminal_; }
  // Replaces the live line by `text`. Does nothing if the output is no terminal.
  void show(const std::string& text);
  // Writes a line that stays, above the live line.
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
