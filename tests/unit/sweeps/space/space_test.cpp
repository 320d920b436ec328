#include "sweeps/space/space.h"

#include <doctest/doctest.h>

#include "sweeps/space/trial.h"

TEST_SUITE_BEGIN("sweeps/space/space");

using namespace mlk::sweeps;
using nlohmann::json;

TEST_CASE("a condition holds if the point has the parameter with one of the values") {
  const std::vector<Condition> conditions{{"optimizer", {"sgd", "adam"}}};
  CHECK(holds(conditions, {{"optimizer", "sgd"}}));
  CHECK(holds(conditions, {{"optimizer", "adam"}, {"lr", 0.1}}));
  CHECK_FALSE(holds(conditions, {{"optimizer", "adamw"}}));
  CHECK_FALSE(holds(conditions, {{"lr", "sgd"}}));
  CHECK(holds({}, {}));
}

TEST_CASE("a condition compares numbers by value, and not by spelling") {
  CHECK(holds({{"lr", {1}}}, {{"lr", 1.0}}));
  CHECK_FALSE(holds({{"lr", {"1"}}}, {{"lr", 1}}));
}

TEST_CASE("a parameter may have the values of its list, or the numbers within its bounds") {
  const Parameter choice{"a", Parameter::Kind::choice, {"x", true, 1}, 0, 0, {}};
  CHECK(can_be(choice, "x"));
  CHECK(can_be(choice, 1.0));
  CHECK_FALSE(can_be(choice, "true"));
  CHECK_FALSE(can_be(choice, "y"));
  const Parameter range{"a", Parameter::Kind::uniform, {}, 0.5, 2, {}};
  for (const json& value : {json(0.5), json(2), json(1.25)}) CHECK(can_be(range, value));
  for (const json& value : {json(0.4), json(2.1), json("1")}) CHECK_FALSE(can_be(range, value));
  const Parameter whole{"a", Parameter::Kind::integer, {}, 1, 3, {}};
  CHECK(can_be(whole, 2.0));
  CHECK_FALSE(can_be(whole, 1.5));
}

TEST_CASE("a point is left out if all conditions of one exception hold") {
  const Space space{{}, {{{"a", {1}}, {"b", {2}}}, {{"c", {3}}}}};
  CHECK(is_left_out(space, {{"a", 1}, {"b", 2}}));
  CHECK(is_left_out(space, {{"c", 3}}));
  CHECK_FALSE(is_left_out(space, {{"a", 1}, {"b", 3}}));
}

TEST_CASE("the hash of a point depends on its values, and not on the order of parameters") {
  CHECK(hash_of({{"a", 1}, {"b", 2}}) == hash_of({{"b", 2}, {"a", 1}}));
  CHECK(hash_of({{"a", 1}}) != hash_of({{"a", 2}}));
  CHECK(hash_of({{"a", 1}}) != hash_of({{"a", "1"}}));
  CHECK(hash_of({}).size() == 12);
}

TEST_CASE("equal values have the same hash, however they are spelled") {
  const json point{{"a", 8.0}, {"b", {1.0, {{"c", -0.0}}}}, {"d", 0.5}, {"e", "8.0"}, {"f", 1e300},
                   {"g", true}};
  CHECK(normal_form(point).dump() == R"({"a":8,"b":[1,{"c":0}],"d":0.5,"e":"8.0","f":1e+300,"g":true})");
  CHECK(hash_of({{"a", 8}}) == hash_of({{"a", 8.0}}));
  CHECK(hash_of({{"a", json{128, 1e3}}}) == hash_of({{"a", json{128.0, 1000}}}));
  CHECK(hash_of({{"a", 8}}) != hash_of({{"a", 8.5}}));
}

TEST_CASE("parse_trial_state() reads each state that to_string() writes") {
  for (const TrialState state : {TrialState::waiting, TrialState::running, TrialState::succeeded,
                                 TrialState::failed, TrialState::stopped})
    CHECK(parse_trial_state(to_string(state)) == state);
  CHECK_FALSE(parse_trial_state("Nearly"));
}
