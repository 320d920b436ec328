#include "cli/ui/table.h"

#include <algorithm>
#include <unistd.h>

#include "cli/ui/width.h"
#include "cli/util/text.h"

namespace mlk::ui {

void Table::add(std::vector<std::string> cells, std::vector<Color> colors) {
  cells.resize(headers_.size());
  for (std::string& cell : cells) {
    cell = printable(cell);
    std::replace(cell.begin(), cell.end(), '\n', ' ');
    std::replace(cell.begin(), cell.end(), '\t', ' ');
  }
  colors.resize(headers_.size(), Color::none);
  rows_.push_back({std::move(cells), std::move(colors)});
}

void Table::print(std::ostream& out, std::size_t width, const Style& style) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    widths.push_back(width_of(headers_[i]));
    for (const Row& row : rows_) widths[i] = std::max(widths[i], width_of(row.cells[i]));
  }
  const auto print_row = [&](const Row& row) {
    std::string line;
    std::size_t used = 0;
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      if (width != 0 && used >= width) break;
      const bool last = i + 1 == row.cells.size();
      std::string cell = row.cells[i];
      if (width != 0) cell = fit(cell, width - used);
      const std::size_t own = width_of(cell);
      line += style.paint(cell, row.colors[i]);
      used += own;
      if (last) break;
      std::size_t gap = widths[i] + 2 > own ? widths[i] + 2 - own : 2;
      if (width != 0) gap = std::min(gap, width - used);
      line += std::string(gap, ' ');
      used += gap;
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  };
  print_row({headers_, std::vector<Color>(headers_.size(), Color::none)});
  for (const Row& row : rows_) print_row(row);
}

void Table::print(std::ostream& out, bool terminal) const {
  print(out, terminal ? terminal_width(STDOUT_FILENO) : 0);
}

}  // namespace mlk::ui
