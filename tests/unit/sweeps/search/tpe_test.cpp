#include "sweeps/search/tpe.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sweeps/search/grid.h"
#include "sweeps/search/random.h"
#include "tests/unit/sweeps/spaces.h"

TEST_SUITE_BEGIN("sweeps/search/tpe");

using namespace mlk::sweeps;
using mlk::test::choice;
using mlk::test::integer;
using mlk::test::log_uniform;
using mlk::test::uniform;

namespace {

using PointFunction = std::function<double(const Point&)>;
constexpr auto minimize = Objective::Goal::minimize;

double number(const Point& point, const std::string& path) { return point.at(path).get<double>(); }

Space bowl_space() { return {{uniform("x", -4, 6), log_uniform("y", 1e-4, 1), integer("n", 1, 20)}, {}}; }

double bowl(const Point& point) {
  return std::pow(number(point, "x") - 1, 2) + std::pow(std::log10(number(point, "y")) + 2, 2) +
         0.1 * std::pow(number(point, "n") - 7, 2);
}

Space network_space() {
  return {{choice("optimizer", {"sgd", "adam"}), log_uniform("lr", 1e-5, 1),
           uniform("momentum", 0, 0.99, {{"optimizer", {"sgd"}}}), integer("layers", 1, 3),
           integer("width3", 8, 64, {{"layers", {3}}}), choice("batch", {16, 32, 64})},
          {{{"optimizer", {"adam"}}, {"layers", {2}}}}};
}

double network(const Point& point) {
  double loss = std::pow(std::log10(number(point, "lr")) + 2, 2) + (number(point, "layers") - 1) / 10;
  if (point.at("optimizer") == "sgd") loss += 0.2 + std::fabs(number(point, "momentum") - 0.9);
  return loss + std::fabs(number(point, "batch") - 32) / 64;
}

std::vector<Told> search(const Space& space, const PointFunction& value, std::size_t count,
                         const TpeOptions& options, Objective::Goal goal = minimize) {
  std::vector<Told> told;
  while (told.size() < count) {
    const std::optional<Point> point = suggest_tpe(space, goal, options, told);
    if (!point) break;
    told.push_back({*point, value(*point)});
  }
  return told;
}

double smallest(const std::vector<Told>& told) {
  double least = std::numeric_limits<double>::infinity();
  for (const Told& one : told) least = std::min(least, *one.value);
  return least;
}

std::vector<Point> points_of(const std::vector<Told>& told) {
  std::vector<Point> points;
  for (const Told& one : told) points.push_back(one.point);
  return points;
}

}  // namespace

TEST_CASE("the search `tpe` suggests points that the bounds, conditions and exceptions of the space allow") {
  const Space space = network_space();
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const std::vector<Told> told = search(space, network, 50, {seed});
    REQUIRE(told.size() == 50);
    for (const Told& one : told) {
      const Point& point = one.point;
      CHECK((number(point, "lr") >= 1e-5 && number(point, "lr") <= 1));
      CHECK((number(point, "layers") >= 1 && number(point, "layers") <= 3));
      CHECK((point.count("momentum") == 1) == (point.at("optimizer") == "sgd"));
      CHECK((point.count("width3") == 1) == (point.at("layers") == 3));
      CHECK_FALSE(is_left_out(space, point));
    }
  }
}

TEST_CASE("the search `tpe` suggests the same points for the same seed and results") {
  const auto first = search(network_space(), network, 30, {4});
  CHECK(points_of(first) == points_of(search(network_space(), network, 30, {4})));
  CHECK(points_of(first) != points_of(search(network_space(), network, 30, {5})));
}

TEST_CASE("the search `tpe` begins with the user's start points that are allowed and not tried yet") {
  const Space space = network_space();
  const Point a{{"optimizer", "adam"}, {"lr", 0.5}, {"layers", 1}, {"batch", 16}};
  const Point b{{"optimizer", "adam"}, {"lr", 0.1}, {"layers", 1}, {"batch", 16}};
  const Point left_out{{"optimizer", "adam"}, {"lr", 0.1}, {"layers", 2}, {"batch", 16}};
  const TpeOptions options{1, 10, {left_out, a, b}};
  CHECK(suggest_tpe(space, minimize, options, {}) == a);
  CHECK(suggest_tpe(space, minimize, options, {{a, 1.0}}) == b);
  CHECK(suggest_tpe(space, minimize, options, {{a, 1.0}, {b, std::nullopt, true}}) ==
        random_points(space, 1, 1)[0]);
}

TEST_CASE("the search `tpe` begins with the points of a random search") {
  const auto told = search(bowl_space(), bowl, 8, {9, 8, {}});
  CHECK(points_of(told) == random_points(bowl_space(), 9, 8));
}

TEST_CASE("the search `tpe` finds much better points than a random search") {
  for (const auto& [space, value] :
       {std::pair<Space, PointFunction>{bowl_space(), bowl}, {network_space(), network}}) {
    double by_model = 0, at_random = 0;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      double random = std::numeric_limits<double>::infinity();
      for (const Point& point : random_points(space, seed, 50)) random = std::min(random, value(point));
      at_random += random;
      by_model += smallest(search(space, value, 50, {seed}));
    }
    CHECK(by_model < 0.75 * at_random);
  }
}

TEST_CASE("the search `tpe` gives the same points for minimizing a function and maximizing its negative") {
  const auto least = search(bowl_space(), bowl, 30, {2});
  const auto most = search(
      bowl_space(), [](const Point& point) { return -bowl(point); }, 30, {2}, Objective::Goal::maximize);
  CHECK(points_of(least) == points_of(most));
}

TEST_CASE("the search `tpe` suggests points that are not close to the points of running trials") {
  std::vector<Told> told = search(bowl_space(), bowl, 20, {3});
  std::set<Point> asked;
  double nearest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 8; ++i) {
    const auto point = suggest_tpe(bowl_space(), minimize, {3}, told);
    REQUIRE(point);
    for (const Point& other : asked)
      nearest = std::min(nearest, std::fabs(number(*point, "x") - number(other, "x")) +
                                      std::fabs(std::log10(number(*point, "y") / number(other, "y"))) +
                                      std::fabs(number(*point, "n") - number(other, "n")));
    asked.insert(*point);
    told.push_back({*point, std::nullopt, true});
  }
  CHECK(asked.size() == 8);
  CHECK(nearest > 0.01);
}

TEST_CASE("the search `tpe` ignores the value of a running trial") {
  std::vector<Told> told = search(bowl_space(), bowl, 15, {3});
  std::vector<Told> other = told;
  told.push_back({random_points(bowl_space(), 77, 1)[0], 1e-9, true});
  other.push_back({told.back().point, std::nullopt, true});
  CHECK(suggest_tpe(bowl_space(), minimize, {3}, told) == suggest_tpe(bowl_space(), minimize, {3}, other));
}

TEST_CASE("the search `tpe` avoids the region of the space where trials fail") {
  const PointFunction fails_above = [](const Point& point) {
    return number(point, "x") > 2 ? std::numeric_limits<double>::quiet_NaN() : bowl(point);
  };
  int failed = 0, all = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto told = search(bowl_space(), fails_above, 40, {seed});
    for (std::size_t i = 20; i < told.size(); ++i) {
      ++all;
      if (std::isnan(*told[i].value)) ++failed;
    }
  }
  CHECK(failed < all / 10);  // four of ten random points fail
}

TEST_CASE("the search `tpe` finds nearly as good a value with eight parallel trials as with one") {
  double one_by_one = 0, side_by_side = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    one_by_one += smallest(search(bowl_space(), bowl, 48, {seed}));
    std::vector<Told> told;
    while (told.size() < 48) {
      const std::size_t ended = told.size();
      for (int i = 0; i < 8; ++i)
        told.push_back({*suggest_tpe(bowl_space(), minimize, {seed}, told), std::nullopt, true});
      for (std::size_t i = ended; i < told.size(); ++i) told[i] = {told[i].point, bowl(told[i].point)};
    }
    side_by_side += smallest(told);
  }
  CHECK(one_by_one < 3 * 0.1);
  CHECK(side_by_side < 3 * 0.15);
}

TEST_CASE("the search `tpe` suggests random points if all trials have failed") {
  std::vector<Told> told;
  for (const Point& point : random_points(bowl_space(), 1, 30)) told.push_back({point, std::nullopt});
  CHECK(suggest_tpe(bowl_space(), minimize, {1}, told) == random_points(bowl_space(), 1, 31)[30]);
}

TEST_CASE("the search `tpe` tries each point of a finite space once, and then suggests nothing") {
  const Space space{{integer("a", 1, 6), choice("b", {"x", "y", "z"}), integer("c", 1, 3, {{"b", {"y"}}})},
                    {{{"a", {2}}, {"b", {"x"}}}}};
  const PointFunction value = [](const Point& point) { return number(point, "a"); };
  const auto told = search(space, value, 1000, {1});
  const std::vector<Point> points = points_of(told);
  CHECK(std::set<Point>(points.begin(), points.end()).size() == points.size());
  CHECK(points.size() == count_grid(space).points);
  std::vector<Told> running = told;
  for (Told& one : running) one.running = true;
  CHECK_FALSE(suggest_tpe(space, minimize, {1}, running));
}

TEST_CASE("the search `tpe` suggests a valid point after infinite or equal values") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<Told> told;
  for (const Point& point : random_points(bowl_space(), 1, 12)) told.push_back({point, 1.0});
  told[0].value = infinity;
  told[1].value = -infinity;
  told.push_back({{{"x", "word"}, {"other", 3}}, 0.5});
  told.push_back({{}, 0.4});
  told.push_back({{{"x", 1e300}, {"n", 2.5}}, 0.3});
  const auto point = suggest_tpe(bowl_space(), minimize, {1}, told);
  REQUIRE(point);
  CHECK(point->size() == 3);
  CHECK((number(*point, "x") >= -4 && number(*point, "x") <= 6));
}

TEST_CASE("the search `tpe` has one suggestion for a space without parameters") {
  CHECK(suggest_tpe({}, minimize, {}, {}) == Point{});
  CHECK_FALSE(suggest_tpe({}, minimize, {}, {{{}, 1.0}}));
}

TEST_CASE("the search `tpe` is not attracted by a single good value far from the others") {
  const Space space{{uniform("x", 0, 1), uniform("y", 0, 1)}, {}};
  const Point lucky{{"x", 0.9}, {"y", 0.9}};
  const auto from = [](const Point& point, double place) {
    return std::hypot(number(point, "x") - place, number(point, "y") - place);
  };
  int near_luck = 0, near_minimum = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<Told> told;
    for (const Point& point : random_points(space, seed, 40))
      told.push_back({point, std::pow(from(point, 0.3), 2)});
    told.push_back({lucky, -0.02});
    const auto point = suggest_tpe(space, minimize, {seed}, told);
    REQUIRE(point);
    if (from(*point, 0.9) < 0.3) ++near_luck;
    if (from(*point, 0.3) < 0.3) ++near_minimum;
  }
  CHECK(near_minimum >= 18);
  CHECK(near_luck == 0);
}
