// Plots in lines of text: x to the right, y upwards, with axes and labels.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cli/ui/style.h"

namespace mlk::ui {

struct PlotAxis {
  std::string label;
  bool logarithmic = false;  // values that are not above 0 are left out
};

struct PlotOptions {
  std::size_t width = 80;   // columns of the whole picture, at least 24; it is no wider than 400
  std::size_t height = 12;  // rows inside the frame, at least 2 and at most 100
  bool ascii = false;       // for places that know no Unicode
  PlotAxis x, y;
  std::vector<std::string> categories;  // of x, whose values are then their indexes: 0, 1 ...
};

using PlotPoints = std::vector<std::pair<double, double>>;  // x and y

struct PlotSeries {
  std::string name;
  PlotPoints points;
};

// Labels and names are made printable. Points of which a value is no number, is beyond 1e300, or has no place
// on its axis, are left out; no lines at all when none is left.

// A dot for each point, eight to a character; in ASCII '.', ':' and '#' are one, two, and more points.
std::vector<std::string> scatter(const PlotPoints& points, const PlotOptions& options);

// A curve for each series through its points in their order, with a gap where one is left out, and a legend
// below. Drawn with dots where colours tell them apart; elsewhere with the letters a to z, and '*' where
// several curves meet. The legend counts the series after the 26th, which are not drawn.
std::vector<std::string> lines(const std::vector<PlotSeries>& series, const PlotOptions& options,
                               const Style& style = Style());

}  // namespace mlk::ui
