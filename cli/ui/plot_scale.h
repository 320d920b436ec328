// The places of values on an axis, and the labels there. Part of plot.h.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace mlk::ui {

class PlotScale {
 public:
  // From the smallest to the largest value that has a place; not usable if no value has a place.
  PlotScale(const std::vector<double>& values, bool logarithmic);

  static bool has_place(double value, bool logarithmic);

  double share(double value) const;  // 0 at the low end, 1 at the high one

  // Round values within the range with their texts: about `most` of them, at least one.
  std::vector<std::pair<double, std::string>> ticks(std::size_t most) const;

 private:
  double at(double value) const;

  bool logarithmic_;
  double low_ = 0, high_ = 1;  // of a logarithmic scale: decimal logarithms
};

}  // namespace mlk::ui
