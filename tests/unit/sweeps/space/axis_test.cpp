#include "sweeps/space/axis.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "tests/unit/sweeps/spaces.h"

TEST_SUITE_BEGIN("sweeps/space/axis");

using namespace mlk::sweeps;
using mlk::test::choice;
using mlk::test::integer;
using mlk::test::log_integer;
using mlk::test::log_uniform;
using mlk::test::uniform;
using nlohmann::json;

TEST_CASE("an axis spreads the numbers of a range evenly over the places from 0 to 1") {
  const Parameter parameter = uniform("x", -1, 3);
  const Axis axis(parameter);
  CHECK(axis.value_at(0) == -1.0);
  CHECK(axis.value_at(0.25) == 0.0);
  CHECK(axis.value_at(1) == 3.0);
  CHECK(axis.value_at(7) == 3.0);
  CHECK(axis.place_of(0) == 0.25);
  CHECK_FALSE(axis.place_of(3.5));
  CHECK_FALSE(axis.place_of("0"));
  CHECK_FALSE(axis.place_of(std::numeric_limits<double>::quiet_NaN()));
}

TEST_CASE("the middle of a logarithmic axis is the geometric mean of the bounds") {
  const Parameter parameter = log_uniform("lr", 1e-4, 1);
  const Axis axis(parameter);
  CHECK(axis.value_at(0.5).get<double>() == doctest::Approx(1e-2));
  CHECK(*axis.place_of(1e-2) == doctest::Approx(0.5));
  CHECK(axis.value_at(0).get<double>() >= 1e-4);
  CHECK(axis.value_at(1).get<double>() <= 1);
}

TEST_CASE("each whole number on a linear axis has a cell of the same width") {
  const Parameter parameter = integer("n", 3, 6);
  const Axis axis(parameter);
  CHECK(axis.cells() == 4);
  CHECK(axis.value_at(0) == 3);
  CHECK(axis.value_at(0.2499) == 3);
  CHECK(axis.value_at(0.2501) == 4);
  CHECK(axis.value_at(1) == 6);
  CHECK(axis.place_of(3) == 0.125);
  CHECK(axis.place_of(3.0) == 0.125);
  CHECK_FALSE(axis.place_of(3.5));
  CHECK_FALSE(axis.place_of(7));
}

TEST_CASE("a whole number on a logarithmic axis has the places of all numbers that are rounded to it") {
  const Parameter parameter = log_integer("batch", 1, 64);
  const Axis axis(parameter);
  CHECK(axis.cells() == 64);
  CHECK(axis.value_at(0) == 1);
  CHECK(axis.value_at(1) == 64);
  CHECK(axis.value_at(0.5) == 6);
  CHECK(axis.value_at(0.5).is_number_integer());
  double sum = 0;
  for (std::uint64_t cell = 0; cell < axis.cells(); ++cell) {
    CHECK(axis.cell_at(axis.middle_of(cell)) == cell);
    CHECK(axis.cell_of(axis.value_of(cell)) == cell);
    CHECK(axis.value_of(cell) == static_cast<int>(cell) + 1);
    CHECK(axis.start_of(cell) < axis.middle_of(cell));
    CHECK(axis.middle_of(cell) < axis.start_of(cell) + axis.width_of(cell));
    sum += axis.width_of(cell);
  }
  CHECK(sum == doctest::Approx(1));
  CHECK(axis.width_of(0) / axis.width_of(1) == doctest::Approx(2).epsilon(0.1));
  CHECK(*axis.place_of(8.0) == doctest::Approx(std::log(16.0) / std::log(129.0)));
  for (const json& other : {json(0), json(65), json(1.5), json("1")}) CHECK_FALSE(axis.place_of(other));
  const Parameter one = log_integer("n", 3, 3);
  CHECK(Axis(one).value_at(0.3) == 3);
  const Parameter wide = log_integer("n", 1, 9e15);
  CHECK(Axis(wide).value_at(0.5).get<double>() == doctest::Approx(std::sqrt(0.5 * 9e15)));
}

TEST_CASE("numeric choices are ordered by size, and other choices keep the order in which they are written") {
  const Parameter numbers = choice("batch", {64, 16, 32});
  CHECK(Axis(numbers).is_ordered());
  CHECK(Axis(numbers).value_at(0) == 16);
  CHECK(Axis(numbers).value_at(0.99) == 64);
  const Parameter words = choice("optimizer", {"sgd", "adam"});
  CHECK_FALSE(Axis(words).is_ordered());
  CHECK(Axis(words).value_at(0) == "sgd");
  CHECK(Axis(words).place_of("adam") == 0.75);
  CHECK_FALSE(Axis(words).place_of("adamw"));
}

TEST_CASE("an axis can have the widest possible range, or a single value") {
  const double largest = std::numeric_limits<double>::max();
  const Parameter wide = uniform("x", -largest, largest);
  CHECK(Axis(wide).value_at(0.5) == 0.0);
  const Parameter whole = integer("n", -largest, largest);
  CHECK(Axis(whole).value_at(0).is_number_integer());
  const Parameter one = uniform("x", 2, 2);
  CHECK(Axis(one).value_at(0.3) == 2.0);
  CHECK(Axis(one).place_of(2) == 0.5);
}
