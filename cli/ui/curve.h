// A curve in one line of text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mlk::ui {

// "█▆▄▃▂▁", in at most `width` columns. If several values share a column, the column shows their mean. NaN
// and infinite values are left out. "" if no values remain. `ascii` draws with "_.-^" for terminals without
// Unicode.
std::string sparkline(const std::vector<double>& values, std::size_t width, bool ascii = false);

}  // namespace mlk::ui
