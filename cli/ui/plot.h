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
  bool logarithmic = false;  // leaves out values that are not above 0
};

struct PlotOptions {
  std::size_t width = 80;   // columns of the whole picture, at least 24; at most 400 are used
  std::size_t height = 12;  // rows inside the frame, at least 2 and at most 100
  bool ascii = false;       // for terminals without Unicode
  PlotAxis x, y;
  std::vector<std::string> categories;  // categories of x; the values of x are then their indexes: 0, 1 ...
};

using PlotPoints = std::vector<std::pair<double, double>>;  // x and y

struct PlotSeries {
  std::string name;
  PlotPoints points;
};

// scatter() and lines() make labels and names printable. They leave out a point if one of its values is not a
// number, is beyond 1e300, or has no place on its axis. Without points the result is empty.

// Draws a dot for each point; a character holds eight dots. In ASCII, '.' means one point, ':' two points and
// '#' more points.
std::vector<std::string> scatter(const PlotPoints& points, const PlotOptions& options);

// Draws a curve for each series, and a legend below. A curve connects its points in their order, and has a
// gap where a point is left out. With colours, the curves are drawn with dots. Without colours, or in ASCII,
// they are drawn with the letters a to z, and '*' where several curves meet. The series after the 26th are
// not drawn: the legend only says how many they are.
std::vector<std::string> lines(const std::vector<PlotSeries>& series, const PlotOptions& options,
                               const Style& style = Style());

}  // namespace mlk::ui
