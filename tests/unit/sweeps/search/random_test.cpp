#include "sweeps/search/random.h"

#include <set>

#include <doctest/doctest.h>

#include "sweeps/search/grid.h"
#include "tests/unit/sweeps/spaces.h"

TEST_SUITE_BEGIN("sweeps/search/random");

using namespace mlk::sweeps;
using mlk::test::choice;
using mlk::test::integer;
using mlk::test::log_uniform;
using mlk::test::uniform;

namespace {

Space training_space() {
  return {{choice("optimizer", {"sgd", "adam"}), log_uniform("lr", 1e-5, 1),
           uniform("momentum", 0, 0.99, {{"optimizer", {"sgd"}}}), integer("layers", 1, 4),
           integer("width2", 8, 64, {{"layers", {2, 3, 4}}})},
          {{{"optimizer", {"adam"}}, {"layers", {4}}}}};
}

std::size_t number_of_distinct(const std::vector<Point>& points) {
  return std::set<Point>(points.begin(), points.end()).size();
}

}  // namespace

TEST_CASE("random points lie in their space: bounds, conditions and exceptions hold") {
  const Space space = training_space();
  const std::vector<Point> points = random_points(space, 1, 300);
  REQUIRE(points.size() == 300);
  for (const Point& point : points) {
    const double rate = point.at("lr").get<double>();
    CHECK((rate >= 1e-5 && rate <= 1));
    const int layers = point.at("layers").get<int>();
    CHECK((layers >= 1 && layers <= 4));
    CHECK(point.at("layers").is_number_integer());
    CHECK((point.count("momentum") == 1) == (point.at("optimizer") == "sgd"));
    CHECK((point.count("width2") == 1) == (layers >= 2));
    CHECK_FALSE(is_left_out(space, point));
  }
  CHECK(number_of_distinct(points) == points.size());
}

TEST_CASE("a longer list of random points begins with the points of a shorter list") {
  const Space finite{{integer("a", 1, 6), choice("b", {"x", "y", "z"})}, {{{"a", {1}}}}};
  for (const Space& space : {training_space(), finite}) {
    std::vector<Point> many = random_points(space, 3, 15);
    const std::vector<Point> few = random_points(space, 3, 9);
    REQUIRE(many.size() == 15);
    many.resize(9);
    CHECK(many == few);
  }
}

TEST_CASE("on a logarithmic axis, random points have about as many small numbers as large ones") {
  const Space space{{mlk::test::log_integer("batch", 1, 1024)}, {}};
  std::size_t small = 0;
  const std::vector<Point> points = random_points(space, 1, 16);
  for (const Point& point : points) {
    CHECK(point.at("batch").is_number_integer());
    if (point.at("batch") < 24) ++small;
  }
  CHECK(points.size() == 16);
  CHECK(small >= 4);
  CHECK(small <= 10);
  CHECK(count_grid(space).points == 1024);
  CHECK(grid_points(space, 2000).front().at("batch") == 1);
}

TEST_CASE("random_points() returns other points for another seed") {
  CHECK(random_points(training_space(), 1, 5) != random_points(training_space(), 2, 5));
}

TEST_CASE("random_points() returns each point of a finite space once") {
  const Space space{{integer("a", 1, 40), choice("b", {"x", "y", "z"}), integer("c", 1, 5, {{"b", {"x"}}})},
                    {{{"a", {7}}, {"b", {"y"}}}}};
  const std::vector<Point> points = random_points(space, 5, 100'000);
  CHECK(number_of_distinct(points) == points.size());
  CHECK(points.size() == count_grid(space).points);
}

TEST_CASE("random_points() finds the only point that the exceptions leave in a large finite space") {
  Space space{{integer("a", 1, 300), integer("b", 1, 300)}, {{{"a", {}}}, {{"b", {}}}}};
  for (int i = 1; i <= 300; ++i) {
    if (i != 123) space.except[0][0].values.push_back(i);
    if (i != 234) space.except[1][0].values.push_back(i);
  }
  CHECK(random_points(space, 1, 10) == std::vector<Point>{{{"a", 123}, {"b", 234}}});
}

TEST_CASE("random_points() returns nothing if exceptions exclude all points of the space") {
  const Space space{{uniform("x", 0, 1), choice("a", {"p"})}, {{{"a", {"p"}}}}};
  CHECK(random_points(space, 1, 10).empty());
}

TEST_CASE("random points fill a range evenly") {
  const std::vector<Point> points = random_points({{uniform("x", 0, 16)}, {}}, 1, 16);
  std::set<int> whole;
  for (const Point& point : points) whole.insert(static_cast<int>(point.at("x").get<double>()));
  CHECK(whole.size() == 16);
}
