// Compares plots of small inputs with complete pictures.
#include "cli/ui/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "cli/ui/width.h"
#include "cli/util/text.h"

TEST_SUITE_BEGIN("ui/plot");

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

PlotOptions labelled(bool ascii = false) {
  PlotOptions options = small(ascii);
  options.x.label = "lr";
  options.y.label = "accuracy";
  return options;
}

TEST_CASE("points are at the places of their values, between axes with round numbers") {
  CHECK(shown(scatter({{0, 0}, {1, 1}, {2, 4}, {3, 9}, {4, 16}}, small())) == R"(
   │                                   ⠈
10 ┤
   │                          ⠈
   │                  ⠄
 0 ┤⡀        ⠄
   └┬─────────────────┬────────────────┬
    0                 2                4
)");
}

TEST_CASE("a plot in ASCII has different signs for one, two and more points at the same place") {
  CHECK(shown(scatter({{0, 0}, {1, 1}, {2, 4}, {2, 4}, {3, 9}, {4, 16}, {4, 16}, {4, 16}}, labelled(true))) ==
        R"(
accuracy
   |                                   #
10 +
   |                          .
   |                  :
 0 +.        .
   ++-----------------+----------------+
    0                 2                4
                     lr
)");
}

TEST_CASE("a logarithmic axis has powers of ten if it spans several of them, and no place for zero") {
  PlotOptions options = labelled();
  options.x.logarithmic = true;
  CHECK(shown(scatter({{0.0001, 0.1}, {0.001, 0.5}, {0.01, 0.9}, {0.1, 0.95}, {0, 9}, {1, 0.1}, {-1, 9}},
                      options)) == R"(
accuracy
    │                 ⠐        ⠁
    │
0.5 ┤        ⠠
    │
    │⡀                                 ⢀
    └┬────────────────┬────────────────┬
     0.0001         0.01               1
                     lr
)");
  CHECK(shown(scatter({{0.003, 0.1}, {0.005, 0.5}}, options)) == R"(
accuracy
    │                                  ⠈
0.4 ┤
    │
0.2 ┤
    │⡀
    └┬──────────────────┬──────────────┬
     0.003            0.004        0.005
                     lr
)");
}

TEST_CASE("a single point is drawn in the middle of the plot") {
  CHECK(shown(scatter({{0, 0}}, small())) == R"(
 1 ┤
   │
 0 ┤                  ⠄
   │
-1 ┤
   └┬─────────────────┬────────────────┬
    -1                0                1
)");
}

TEST_CASE("a plot leaves out points that belong to no category") {
  PlotOptions options = small();
  options.categories = {"sgd", "adam", "momentum"};
  options.x.logarithmic = true;  // categories ignore this
  CHECK(shown(scatter({{0, 0.1}, {1, 0.5}, {1, 0.6}, {2, 0.4}, {3, 9}, {-1, 9}}, options)) == R"(
    │                 ⠈
0.5 ┤                 ⠈
    │                             ⠁
    │
    │      ⡀
    └──────┬──────────┬───────────┬─────
          sgd       adam      momentum
)");
}

// Three curves that cross. The third curve has a gap.
std::vector<PlotSeries> three_curves() {
  std::vector<PlotSeries> series = {{"lr=0.1", {}}, {"lr=0.01", {}}, {"lr=1, momentum=0.9", {}}};
  for (int i = 0; i <= 20; ++i) {
    series[0].points.emplace_back(i * 50, 2.0 / (1 + i));
    series[1].points.emplace_back(i * 50, 1.5 - i * 0.05);
    series[2].points.emplace_back(i * 50, i > 5 && i < 10 ? no_number : 0.2);
  }
  return series;
}

TEST_CASE("curves without colours are drawn with letters, which the legend explains") {
  PlotOptions options = small();
  options.height = 8;
  options.x.label = "step";
  options.y.label = "loss";
  CHECK(shown(lines(three_curves(), options)) == R"(
loss
  2 ┤a
    │a
1.5 ┤b*bbbbbb
    │ a      bbbbbbbbb
  1 ┤ aa             bbbbbbbb
    │   aa                  bbbbbbbbb
0.5 ┤     aaaaa                      bbb
    │cccccccccaaaaaaaa******************
    └┬────────────────┬────────────────┬
     0               500            1000
                    step
a lr=0.1  b lr=0.01
c lr=1, momentum=0.9
)");
}

TEST_CASE("a curve has a gap where a value is not a number") {
  PlotOptions options = small();
  options.height = 7;
  options.y.logarithmic = true;
  CHECK(shown(lines({three_curves()[0], three_curves()[2]}, options)) == R"(
    │aa
  1 ┤ aa
    │  aaa
    │     aaaa
    │        aaaaaaa
    │bbbbbbbbb      aa*******bbbbbbbbbbb
0.1 ┤                       aaaaaaaaaaaa
    └┬────────────────┬────────────────┬
     0               500            1000
a lr=0.1  b lr=1, momentum=0.9
)");
}

std::string without_colors(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      out += text[i];
    }
  }
  return out;
}

TEST_CASE("curves with colours are drawn with dots in the colours of the legend") {
  PlotOptions options = small();
  options.width = 24;
  options.height = 2;
  const std::vector<PlotSeries> series = {{"up", {{0, 0}, {1, 1}}}, {"down", {{0, 1}, {1, 0}}}};
  const std::string colored = shown(lines(series, options, Style(true)));
  CHECK(without_colors(colored) == R"(
  1 ┤⠉⠑⠒⠒⠤⠤⠤⣀⣀⣀⣀⣀⠤⠤⠤⠒⠒⠊⠉
  0 ┤⣀⡠⠤⠤⠒⠒⠒⠉⠉⠉⠉⠉⠒⠒⠒⠤⠤⢄⣀
    └┬────────┬────────┬
     0       0.5       1
━ up  ━ down
)");
  CHECK(colored.find("┤\x1b[33m⠉\x1b[0m") != std::string::npos);
  CHECK(colored.find("┤\x1b[36m⣀\x1b[0m") != std::string::npos);
  CHECK(colored.find("\x1b[36m━\x1b[0m up  \x1b[33m━\x1b[0m down") != std::string::npos);
  options.ascii = true;  // ASCII has no dots
  CHECK(shown(lines(series, options, Style(true))).find("\x1b[36ma\x1b[0m") != std::string::npos);
}

TEST_CASE("a plot is empty if none of its points has a place on the axes") {
  CHECK(scatter({}, small()).empty());
  CHECK(scatter({{no_number, 1}, {1, no_number}, {1, 1e301}, {-HUGE_VAL, 1}}, small()).empty());
  CHECK(lines({}, small()).empty());
  CHECK(lines({{"a", {}}, {"b", {{0, no_number}}}}, small()).empty());
  PlotOptions options = small();
  options.y.logarithmic = true;
  CHECK(scatter({{1, 0}, {1, -5}}, options).empty());
}

TEST_CASE("a legend lists at most 26 series and counts the others") {
  const std::vector<PlotSeries> many(28, {"x", {{0, 0}, {1, 1}}});
  const std::string picture = shown(lines(many, small(true)));
  CHECK(picture.find("z x") != std::string::npos);
  CHECK(picture.find("and 2 more") != std::string::npos);
}

TEST_CASE("a label of a plot is one line without control characters, and is cut if it is too long") {
  PlotOptions options = labelled(true);
  options.y.label = "a\nb\x1b[31m" + std::string(100, 'x');
  options.x.label = std::string(100, 'y');
  const std::vector<std::string> picture = lines({{std::string(100, 'n'), {{0, 0}, {1, 1}}}}, options);
  CHECK(picture.front().starts_with("a b?[31mxxx"));
  for (const std::string& line : picture) CHECK(width_of(line) <= 40);
}

// Checks the width of pictures of these points, for several requested widths and all kinds of axes.
void check_widths(const PlotPoints& points) {
  for (const std::size_t width : {0u, 24u, 40u, 41u, 80u, 400u, 100000u}) {
    for (int kind = 0; kind < 16; ++kind) {
      PlotOptions options = small((kind & 1) != 0);
      options.width = width;
      options.height = width;
      options.x.logarithmic = (kind & 2) != 0;
      options.y.logarithmic = (kind & 4) != 0;
      if ((kind & 8) != 0) options.categories.assign(50, "category");
      std::vector<std::string> all = scatter(points, options);
      for (const std::string& line : lines({{"name", points}}, options)) all.push_back(line);
      for (const std::string& line : all) {
        CAPTURE(line);
        CHECK(width_of(line) <= std::clamp<std::size_t>(width, 24, 400));
      }
    }
  }
}

TEST_CASE("a picture of very large, very small or nearly equal values is not wider than requested") {
  const double least = std::numeric_limits<double>::denorm_min();
  check_widths({{1, 2}, {30, 40}});
  check_widths({{1e300, -1e300}, {-1e300, 1e300}});
  check_widths({{least, -least}, {0, 0}, {1, least}});
  check_widths({{1e-300, 1e300}, {1e300, 1e-300}});
  check_widths({{123456789.125, -1.000001e-200}, {123456790.125, -1.000003e-200}});
  check_widths({{1, 1.0000001}, {2, 1}});
  check_widths({{1e15, 3}, {1e15 + 1, 3}, {40, no_number}});
}

}  // namespace
}  // namespace mlk::ui
