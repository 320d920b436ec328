#include "cli/ui/table.h"

#include <algorithm>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "cli/ui/width.h"
#include "cli/util/text.h"

namespace mlk::ui {
namespace {

constexpr std::size_t gap = 2;  // blanks between columns

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether the text, up to its first " (", is one word that begins with a digit, perhaps after signs: "-0.5",
// "1e-05", "3000/3000 (12s ago)", "1h5m", "[64,64]".
bool is_number(std::string_view text) {
  text = text.substr(0, text.find(" ("));
  const std::size_t digit = text.find_first_not_of("+-.[");
  return digit != std::string_view::npos && is_digit(text[digit]) && text.find(' ') == std::string_view::npos;
}

}  // namespace

void Table::add(std::vector<std::string> cells, std::vector<Color> colors) {
  cells.resize(headers_.size());
  for (std::string& cell : cells) cell = printable_line(cell);
  colors.resize(headers_.size(), Color::none);
  rows_.push_back({std::move(cells), std::move(colors)});
}

bool Table::holds_numbers(std::size_t column) const {
  bool any = false;
  for (const Row& row : rows_) {
    if (row.cells[column].empty()) continue;
    if (!is_number(row.cells[column])) return false;
    any = true;
  }
  return any;
}

std::vector<std::size_t> Table::widths(std::size_t width) const {
  constexpr std::size_t readable = 8, enough_for_a_name = 20, least = 5;
  std::vector<std::size_t> widths, texts, first;
  std::size_t all = 0;
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    widths.push_back(width_of(headers_[i]));
    for (const Row& row : rows_) widths[i] = std::max(widths[i], width_of(row.cells[i]));
    all += widths[i] + (i > 0 ? gap : 0);
    if (!holds_numbers(i)) (i == 0 ? first : texts).push_back(i);
  }
  if (width == 0) return widths;
  // Users type the names in the first column again, so this function shortens the other columns of text
  // first.
  for (const auto& [columns, floor] :
       {std::pair(texts, readable), std::pair(first, enough_for_a_name), std::pair(texts, least)}) {
    while (all > width && !columns.empty()) {
      const std::size_t widest =
          *std::max_element(columns.begin(), columns.end(),
                            [&](std::size_t a, std::size_t b) { return widths[a] < widths[b]; });
      if (widths[widest] <= floor) break;
      --widths[widest];
      --all;
    }
  }
  return widths;
}

void Table::print(std::ostream& out, std::size_t width, const Style& style) const {
  const std::vector<std::size_t> widths = this->widths(width);
  const auto print_row = [&](const Row& row) {
    std::string line;
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const std::string cell = fit(row.cells[i], widths[i], style.ascii());
      line += style.paint(cell, row.colors[i]);
      if (i + 1 < row.cells.size()) line += std::string(widths[i] - width_of(cell) + gap, ' ');
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  };
  print_row({headers_, std::vector<Color>(headers_.size(), Color::none)});
  for (const Row& row : rows_) print_row(row);
}

void Table::print(std::ostream& out, bool terminal, const Style& style) const {
  print(out, terminal ? terminal_width(STDOUT_FILENO) : 0, style);
}

}  // namespace mlk::ui
