// Plots: whole pictures of small inputs.
#include "cli/ui/plot.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "cli/ui/width.h"
#include "cli/util/text.h"

namespace mlk::ui {
namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

std::string shown(const std::vector<std::string>& picture) { return "\n" + join(picture, "\n") + "\n"; }

PlotOptions small(bool ascii = false) {
  PlotOptions options;
  options.width = 40;
  options.height = 5;
  options.ascii = ascii;
  return options;
}

TEST_CASE("dump") {
  PlotOptions o = small();
  MESSAGE(shown(scatter({{0, 0}, {1, 1}, {2, 4}, {3, 9}, {4, 16}}, o)));
  o.ascii = true;
  o.x.label = "lr";
  o.y.label = "accuracy";
  MESSAGE(shown(scatter({{0, 0}, {1, 1}, {2, 4}, {2, 4}, {3, 9}, {4, 16}, {4,16}, {4,16}}, o)));
  o.ascii = false;
  o.x.logarithmic = true;
  MESSAGE(shown(scatter({{0.0001, 0.1}, {0.001, 0.5}, {0.01, 0.9}, {0.1, 0.95}, {0, 1}, {1, 0.1}}, o)));
  MESSAGE(shown(scatter({{0.003, 0.1}, {0.005, 0.5}}, o)));
  MESSAGE(shown(scatter({{32, 0.1}, {2048, 0.5}}, o)));
  MESSAGE(shown(scatter({{32, 0.1}}, o)));
  o.x.logarithmic = false;
  MESSAGE(shown(scatter({{0, 0}}, o)));
  o.categories = {"sgd", "adam", "momentum"};
  MESSAGE(shown(scatter({{0, 0.1}, {1, 0.5}, {1, 0.6}, {2, 0.4}, {3, 9}, {-1, 9}}, o)));
  o.categories.clear();
  PlotPoints a, b, c;
  for (int i = 0; i <= 20; ++i) {
    a.emplace_back(i * 50, 2.0 / (1 + i));
    b.emplace_back(i * 50, 1.5 - i * 0.05);
    c.emplace_back(i * 50, i > 5 && i < 10 ? no_number : 0.2);
  }
  o.x.label = "step"; o.y.label = "loss"; o.height = 8;
  MESSAGE(shown(lines({{"lr=0.1", a}, {"lr=0.01", b}, {"lr=1, momentum=0.9", c}}, o)));
  MESSAGE(shown(lines({{"lr=0.1", a}, {"lr=0.01", b}, {"lr=1, momentum=0.9", c}}, o, Style(true))));
  o.y.logarithmic = true;
  MESSAGE(shown(lines({{"lr=0.1", a}, {"lr=0.01", b}, {"lr=1, momentum=0.9", c}}, o)));
  o.width = 80; o.height = 12;
  MESSAGE(shown(lines({{"lr=0.1", a}, {"lr=0.01", b}, {"lr=1, momentum=0.9", c}}, o, Style(true))));
}

}  // namespace
}  // namespace mlk::ui
