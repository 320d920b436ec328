#include "sweeps/search/tpe_widths.h"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/sweeps/spaces.h"

TEST_SUITE_BEGIN("sweeps/search/tpe_widths");

using namespace mlk::sweeps;
using mlk::test::choice;
using mlk::test::integer;
using mlk::test::uniform;

namespace {

using Widener = void (*)(const std::vector<Axis>&, std::vector<Observation>&);

// The widths that observations at these places get.
std::vector<std::vector<double>> widths_by(Widener widen, const std::vector<Parameter>& parameters,
                                           const std::vector<Places>& places) {
  const Space space{parameters, {}};
  const std::vector<Axis> axes = axes_of(space);
  std::vector<Observation> observations;
  for (const Places& each : places) observations.push_back({each, 1, {9, 9, 9, 9}});
  widen(axes, observations);
  std::vector<std::vector<double>> widths;
  for (const Observation& each : observations) {
    CHECK(each.widths.size() == parameters.size());
    widths.push_back(each.widths);
  }
  return widths;
}

double width_of_first(Widener widen, const std::vector<Parameter>& parameters,
                      const std::vector<Places>& places, std::size_t axis = 0) {
  return widths_by(widen, parameters, places)[0][axis];
}

const Parameter range_x = uniform("x", 0, 1), range_y = uniform("y", 0, 1), words_a = choice("a", {"p", "q"});

}  // namespace

TEST_CASE("the width of a good point's kernel is the distance to the second nearest other point") {
  const auto wide = widen_by_neighbours;
  CHECK(width_of_first(wide, {range_x}, {{0.2}, {0.9}, {0.3}, {0.6}}) == doctest::Approx(0.4));
  CHECK(width_of_first(wide, {range_x}, {{0.2}, {0.3}, {0.31}, {0.9}}) == doctest::Approx(0.11));
  CHECK(width_of_first(wide, {range_x}, {{0.2}, {0.45}}) == doctest::Approx(0.25));  // the only other point
  CHECK(width_of_first(wide, {range_x}, {{0.2}}) == doctest::Approx(0.3));           // no other point
  CHECK(width_of_first(wide, {range_x}, {{0.2}, {0.2}, {0.21}}) ==
        doctest::Approx(0.05));  // the smallest width of a good point
  CHECK(widths_by(wide, {range_x}, {}).empty());
}

TEST_CASE("the distance of two good points is the root mean square of their distances on the axes") {
  const auto wide = widen_by_neighbours;
  CHECK(width_of_first(wide, {range_x, range_y}, {{0.2, 0.1}, {0.5, 0.5}}) ==
        doctest::Approx(std::sqrt((0.09 + 0.16) / 2)));
  CHECK(width_of_first(wide, {range_x, range_y}, {{0.2, 0.1}, {0.5, 0.5}}, 1) ==
        doctest::Approx(std::sqrt((0.09 + 0.16) / 2)));
  CHECK(width_of_first(wide, {range_x, words_a}, {{0.2, 0.25}, {0.5, 0.75}}) == doctest::Approx(0.3));
  CHECK(width_of_first(wide, {range_x, range_y}, {{0.2, absent}, {0.5, absent}}) == doctest::Approx(0.3));
  const double one_lacks_it = std::sqrt((0.09 + 1.0 / 6) / 2);
  CHECK(width_of_first(wide, {range_x, range_y}, {{0.2, absent}, {0.5, 0.1}}) ==
        doctest::Approx(one_lacks_it));
  CHECK(width_of_first(wide, {range_x, range_y}, {{0.2, 0.1}, {0.5, absent}}) ==
        doctest::Approx(one_lacks_it));
  CHECK(width_of_first(wide, {words_a}, {{0.25}, {0.75}}) == 1);
}

TEST_CASE("a kernel is at least half a cell wide, and at most as wide as the axis") {
  CHECK(width_of_first(widen_by_neighbours, {integer("n", 1, 4)}, {{0.125}, {0.125}, {0.125}}) ==
        doctest::Approx(0.125));
  CHECK(width_of_first(widen_by_gaps, {integer("n", 1, 2)}, {{0.25}, {0.25}, {0.25}, {0.25}}) ==
        doctest::Approx(0.25));
  CHECK(width_of_first(widen_by_neighbours, {words_a, integer("n", 5, 5)}, {{0.25, 0.5}, {0.75, 0.5}}, 1) <=
        1);
}

TEST_CASE("the kernel of a point that is not good is half as wide as the larger gap beside the point") {
  const auto widths = widths_by(widen_by_gaps, {range_x}, {{0.7}, {0.1}, {0.3}, {0.2}, {0.22}, {0.9}});
  const double expected[] = {0.2,   0.125, 0.2,
                             0.125, 0.125, 0.125};  // 1/8 is the smallest width for six points
  for (std::size_t i = 0; i < widths.size(); ++i) CHECK(widths[i][0] == doctest::Approx(expected[i]));
  CHECK(width_of_first(widen_by_gaps, {range_x}, {{0.4}}) == 1);
  CHECK(width_of_first(widen_by_gaps, {range_x}, {{0.4}, {0.4}}) == doctest::Approx(0.25));
  CHECK(width_of_first(widen_by_gaps, {range_x}, std::vector<Places>(500, {0.4})) == doctest::Approx(0.01));
}

TEST_CASE("widen_by_gaps() measures gaps on an axis only between points that have its parameter") {
  const auto widths =
      widths_by(widen_by_gaps, {range_x, range_y}, {{0.1, 0.2}, {0.9, absent}, {0.5, 0.8}, {0.2, absent}});
  CHECK(widths[0][0] == doctest::Approx(1.0 / 6));
  CHECK(widths[1][0] == doctest::Approx(0.2));
  CHECK(widths[0][1] == doctest::Approx(0.3));
  CHECK(widths[2][1] == doctest::Approx(0.3));
  CHECK(widths[1][1] == 1);
  CHECK(widths_by(widen_by_gaps, {range_x, range_y}, {{0.1, 0.2}, {0.9, absent}})[0][1] == 1);
}
