// A curve in one line of text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mlk::ui {

// "█▆▄▃▂▁": at most `width` columns, several values of a column as their mean. Values that are no numbers are
// left out; "" without any. `ascii` draws with "_.-^" for places that know no Unicode.
std::string sparkline(const std::vector<double>& values, std::size_t width, bool ascii = false);

}  // namespace mlk::ui
