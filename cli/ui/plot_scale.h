// Computes the places of values on an axis, and the labels of the axis. Part of plot.h.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace mlk::ui {

class PlotScale {
 public:
  // The scale reaches from the smallest to the largest value that has a place, and further if they are almost
  // equal. At least one value must have a place.
  PlotScale(const std::vector<double>& values, bool logarithmic);

  static bool has_place(double value, bool logarithmic);

  double share(double value) const;  // the place of the value: 0 at the low end, 1 at the high end

  // Returns about `most` round values of the range, at least one, with their texts.
  std::vector<std::pair<double, std::string>> ticks(std::size_t most) const;

 private:
  double at(double value) const;

  bool logarithmic_;
  double low_ = 0, high_ = 1;  // decimal logarithms if the scale is logarithmic
};

}  // namespace mlk::ui
