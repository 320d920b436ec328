// Aligned columns of text.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "cli/ui/style.h"

namespace mlk::ui {

// Columns are as wide as their widest cell and two blanks apart; the last column has no trailing blanks, as
// in kubectl. Cells are made printable.
class Table {
 public:
  explicit Table(std::vector<std::string> headers) : headers_(std::move(headers)) {}

  // Adds empty cells to a row that is shorter than the headers. `colors`: the colours of its first cells.
  void add(std::vector<std::string> cells, std::vector<Color> colors = {});
  bool empty() const { return rows_.empty(); }

  // `width`: the width of the terminal. If the table does not fit, texts are shortened with "…". A text of
  // the first column keeps a width of at least 20, any other text a width of at least 5. Numbers stay whole,
  // even if the rows are then too long. If `width` is 0, there is no limit.
  void print(std::ostream& out, std::size_t width, const Style& style = Style()) const;
  // `terminal`: whether the width of standard output's terminal is the limit; otherwise there is no limit.
  void print(std::ostream& out, bool terminal, const Style& style) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::vector<Color> colors;
  };
  bool holds_numbers(std::size_t column) const;
  std::vector<std::size_t> widths(std::size_t width) const;  // `width`: the width of the terminal

  std::vector<std::string> headers_;
  std::vector<Row> rows_;
};

}  // namespace mlk::ui
