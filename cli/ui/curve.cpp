#include "cli/ui/curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace mlk::ui {

std::string sparkline(const std::vector<double>& values, std::size_t width, bool ascii) {
  constexpr std::array<std::string_view, 8> blocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<std::string_view, 4> marks{"_", ".", "-", "^"};
  std::vector<double> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](double value) { return std::isfinite(value); });
  if (finite.empty() || width == 0) return "";
  const std::size_t columns = std::min(width, finite.size());
  std::vector<double> means;
  for (std::size_t column = 0; column < columns; ++column) {
    const std::size_t first = column * finite.size() / columns, last = (column + 1) * finite.size() / columns;
    double mean = 0;  // each value is divided before the addition, because a sum may overflow
    for (std::size_t i = first; i < last; ++i) mean += finite[i] / static_cast<double>(last - first);
    means.push_back(mean);
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  const std::size_t levels = ascii ? marks.size() : blocks.size();
  std::string line;
  for (const double mean : means) {
    // Halves the values first, because the range between two very large values may overflow.
    const double range = *high / 2 - *low / 2;
    const double share = range > 0 ? (mean / 2 - *low / 2) / range : 0;
    const auto level = std::min(static_cast<std::size_t>(share * static_cast<double>(levels)), levels - 1);
    line += ascii ? marks[level] : blocks[level];
  }
  return line;
}

}  // namespace mlk::ui
