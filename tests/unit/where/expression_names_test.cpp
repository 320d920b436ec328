// The names in expressions of --where, and the errors for unknown names and for unknown values of fields.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "cli/where/expression.h"
#include "tests/unit/where/refusal.h"

TEST_SUITE_BEGIN("where/expression_names");

namespace mlk::sweeps {
namespace {

using test::refusal_of;

const std::vector<std::string> known_names = {
    "train.optimizer.lr", "train.optimizer.type", "model.type", "loss", "accuracy", "state"};

std::string names_after_check(const std::string& text) {
  return to_string(check_names(parse_expression(text, "--where"), known_names));
}

std::string names_refusal(const std::string& text) {
  return refusal_of([&] { names_after_check(text); });
}

TEST_CASE("names() returns each name in an expression, and the place of the name") {
  const std::vector<NameUse> names =
      parse_expression("lr < 1 &&\n !(loss > 2 || lr == 3)", "--where").names();
  REQUIRE(names.size() == 3);
  CHECK(names[0].name == "lr");
  CHECK(names[1].name == "loss");
  CHECK(names[1].place.line == 1);
  CHECK(names[1].place.column == 3);
  CHECK(names[2].name == "lr");
}

TEST_CASE("a path may be shortened to its last words if no other path ends with them") {
  CHECK(names_after_check("lr < 0.1 and optimizer.type == sgd and not loss > 1") ==
        "train.optimizer.lr < 0.1 and train.optimizer.type == \"sgd\" and not loss > 1");
  CHECK(to_string(check_names(parse_expression("loss < 1", ""), {"x.loss", "loss"})) == "loss < 1");
  CHECK(to_string(check_names(parse_expression("loss < 1", ""), {"x.loss", "x.loss"})) == "x.loss < 1");
  CHECK(names_refusal("mizer.lr < 1") != "accepted");
}

TEST_CASE("ambiguous and unknown names are refused in one error") {
  CHECK(names_refusal("type == sgd && lrr < 1 || los > 2 || zzzzzzzz == 1") ==
        "--where:1:1: 'type' is the end of model.type and of train.optimizer.type; write one of them\n"
        "  type == sgd && lrr < 1 || los > 2 || zzzzzzzz == 1\n"
        "  ^\n"
        "--where:1:16: there is no parameter, metric or field 'lrr'; did you mean 'lr'?\n"
        "  type == sgd && lrr < 1 || los > 2 || zzzzzzzz == 1\n"
        "                 ^\n"
        "--where:1:27: there is no parameter, metric or field 'los'; did you mean 'loss'?\n"
        "  type == sgd && lrr < 1 || los > 2 || zzzzzzzz == 1\n"
        "                            ^\n"
        "--where:1:38: there is no parameter, metric or field 'zzzzzzzz'\n"
        "  type == sgd && lrr < 1 || los > 2 || zzzzzzzz == 1\n"
        "                                       ^");
}

TEST_CASE("the hint for an unknown name lists only eight of many known names") {
  std::vector<std::string> many;
  for (int i = 10; i < 30; ++i) many.push_back("p" + std::to_string(i));
  try {
    (void)check_names(parse_expression("unheard == 1", "--where"), many);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.hint() == "there are p10, p11, p12, p13, p14, p15, p16, p17 and 12 others");
  }
  CHECK(refusal_of([] { (void)check_names(parse_expression("a == 1", "x"), {}); }) != "accepted");
}

TEST_CASE("check_values() refuses text that a field never has, and suggests the nearest value") {
  const std::vector<std::string> states = {"Waiting", "Running", "Succeeded"};
  const auto said = [&](const std::string& text) {
    const std::string all =
        refusal_of([&] { check_values(parse_expression(text, "--where"), "state", states); });
    return all.substr(0, all.find('\n'));
  };
  CHECK(said("state == Suceeded") == "--where:1:10: there is no state 'Suceeded'; did you mean 'Succeeded'?");
  CHECK(said("lr < 1 || !(state in [running, gone])") ==
        "--where:1:22: there is no state 'gone'; it is Waiting, Running or Succeeded");
  for (const char* text :
       {"state == succeeded", "state not in [Waiting]", "other == gone", "state == null", "state >= 'S'"})
    CHECK(said(text) == "accepted");
}

TEST_CASE("the hint for an unknown name lists all known names if there are at most eight") {
  const auto hint_of = [](const std::vector<std::string>& known) {
    try {
      (void)check_names(parse_expression("unheard == 1", "--where"), known);
    } catch (const Error& error) {
      return error.hint();
    }
    return std::string("accepted");
  };
  CHECK(hint_of({"b"}) == "there are b");
  CHECK(hint_of({"b", "a", "b"}) == "there are a and b");
  CHECK(hint_of({"a", "b", "c", "d", "e", "f", "g", "h"}) == "there are a, b, c, d, e, f, g and h");
  CHECK(hint_of({"a", "b", "c", "d", "e", "f", "g", "h", "i"}) ==
        "there are a, b, c, d, e, f, g, h and 1 others");
  CHECK(hint_of({}) == "");
}

TEST_CASE("check_values() checks the operators ==, !=, `in` and `not in`") {
  const auto said = [](const std::string& text, const std::string& name) {
    const std::string all =
        refusal_of([&] { check_values(parse_expression(text, "--where"), name, {"ps", "single"}); });
    return all.substr(0, all.find('\n'));
  };
  for (const char* text : {"mode == x", "mode != x", "mode in [ps, x]", "mode not in [x]", "!mode == x"})
    CHECK(said(text, "mode").find("there is no mode 'x'; it is ps or single") != std::string::npos);
  CHECK(said("mode == PS", "mode") != "accepted");
  CHECK(said("phase == PS", "phase") == "accepted");
  CHECK(said("mode > 'x'", "mode") == "accepted");
  CHECK(said("mode == 3", "mode") == "accepted");
}

}  // namespace
}  // namespace mlk::sweeps
