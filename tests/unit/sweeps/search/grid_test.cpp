#include "sweeps/search/grid.h"

#include <set>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/sweeps/spaces.h"

TEST_SUITE_BEGIN("sweeps/search/grid");

using namespace mlk::sweeps;
using mlk::test::choice;
using mlk::test::integer;
using mlk::test::log_uniform;
using mlk::test::uniform;

TEST_CASE("a grid has every combination, and the last parameter varies fastest") {
  const Space space{{choice("a", {"y", "x"}), integer("n", 1, 2)}, {}};
  const std::vector<Point> expected{
      {{"a", "y"}, {"n", 1}}, {{"a", "y"}, {"n", 2}}, {{"a", "x"}, {"n", 1}}, {{"a", "x"}, {"n", 2}}};
  CHECK(grid_points(space, 100) == expected);
  CHECK(count_grid(space).points == 4);
  CHECK(grid_points(space, 3).size() == 3);
}

TEST_CASE("a grid keeps the order in which the values of a parameter are listed") {
  const Space space{{choice("lr", {0.1, 1, 0.01})}, {}};
  CHECK(grid_points(space, 9) == std::vector<Point>{{{"lr", 0.1}}, {{"lr", 1}}, {{"lr", 0.01}}});
}

TEST_CASE("a grid leaves out a parameter whose conditions do not hold, and adds no points for it") {
  const Space space{{choice("opt", {"sgd", "adam"}), choice("momentum", {0.8, 0.9}, {{"opt", {"sgd"}}}),
                     integer("n", 1, 3)},
                    {}};
  CHECK(count_grid(space).points == 2 * 3 + 3);
  const std::vector<Point> points = grid_points(space, 100);
  REQUIRE(points.size() == 9);
  CHECK(points[0] == Point{{"opt", "sgd"}, {"momentum", 0.8}, {"n", 1}});
  CHECK(points[6] == Point{{"opt", "adam"}, {"n", 1}});
}

TEST_CASE("a grid leaves out points that an exception excludes") {
  const Space space{{integer("a", 1, 10), integer("b", 1, 10), choice("c", {"x", "y"}, {{"a", {1, 2}}})},
                    {{{"a", {1}}, {"b", {1, 2}}}, {{"c", {"y"}}, {"b", {5}}}}};
  const std::vector<Point> points = grid_points(space, 1000);
  for (const Point& point : points) CHECK_FALSE(is_left_out(space, point));
  CHECK(std::set<Point>(points.begin(), points.end()).size() == points.size());
  CHECK(points.size() == 120 - 4 - 2);
  CHECK(count_grid(space).points == points.size());
  CHECK(count_grid(space).exact);
}

TEST_CASE("count_grid() counts a huge grid without building its points") {
  Space space;
  for (int i = 0; i < 9; ++i) space.parameters.push_back(integer("p" + std::to_string(i), 1, 10));
  CHECK(count_grid(space).points == 1'000'000'000);
  CHECK(count_grid(space).exact);
  space.parameters.push_back(integer("q", 1, 1'000'000, {{"p0", {1}}}));
  CHECK(count_grid(space).points == 900'000'000 + 100'000'000'000'000);
  space.except = {{{"p1", {3}}, {"q", {7, 8}}}};
  CHECK(count_grid(space).points == 900'000'000 + 100'000'000'000'000 - 2 * 10'000'000);
  CHECK(grid_points(space, 5).size() == 5);
}

TEST_CASE("count_grid() counts at most 10^18 points, and says that there may be more") {
  Space space;
  for (int i = 0; i < 30; ++i) space.parameters.push_back(integer("p" + std::to_string(i), 1, 1e15));
  CHECK(count_grid(space).points == 1'000'000'000'000'000'000);
  CHECK_FALSE(count_grid(space).exact);
}

TEST_CASE("count_grid() returns a lower bound if the grid has too many cases") {
  // One exception names nine values of each parameter, so each of them is a case. Its first condition never
  // holds, so that the million cases are counted fast.
  Space space;
  std::vector<Condition> exception{{"p0", {11}}};
  for (int i = 0; i < 12; ++i) {
    const std::string path = "p" + std::to_string(i);
    space.parameters.push_back(integer(path, 1, 10));
    exception.push_back({path, {1, 2, 3, 4, 5, 6, 7, 8, 9}});
  }
  space.except.push_back(exception);
  const GridSize size = count_grid(space);
  CHECK_FALSE(size.exact);
  CHECK(size.points > 0);
}

TEST_CASE("grid_points() throws an error if exceptions exclude all points of a huge grid") {
  const Space space{{integer("a", 1, 1e9), integer("b", 1, 2)}, {{{"b", {1}}}, {{"b", {2}}}}};
  CHECK(count_grid(space).points == 0);
  CHECK_THROWS_AS(grid_points(space, 1), mlk::Error);
}

TEST_CASE("a grid with a continuous range is refused, and the error says what to write") {
  for (const Parameter& range : {uniform("train.lr", 0, 1), log_uniform("train.lr", 0.1, 1)}) {
    const Space space{{integer("n", 1, 2), range}, {}};
    CHECK_FALSE(is_finite(space));
    CHECK_THROWS_WITH_AS(count_grid(space),
                         "parameter 'train.lr' is a range of numbers, which a grid cannot list", mlk::Error);
    CHECK_THROWS_AS(grid_points(space, 1), mlk::Error);
  }
}

TEST_CASE("a space without parameters has one point, and this point is empty") {
  CHECK(count_grid({}).points == 1);
  CHECK(grid_points({}, 10) == std::vector<Point>{Point{}});
}
