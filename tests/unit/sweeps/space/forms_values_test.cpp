// Tests the forms of values at their limits.
#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "sweeps/space/forms.h"

TEST_SUITE_BEGIN("sweeps/space/forms_values");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

struct FormRead {
  std::optional<Parameter> parameter;
  std::string said;
};

FormRead form_of(const std::string& text, bool is_word = false) {
  Problems problems;
  const Names names(parse_yaml(
      "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1}\nenv: {SIZE: 1, OTHER: 1}\n", "x.yaml"));
  FormRead out;
  if (!is_word) {
    out.parameter = read_form("p", parse_yaml(text, "s.yaml"), names, problems);
  } else if (const std::optional<Word> word = read_word(text, problems)) {
    out.parameter = read_form(word->path, word->values, names, problems);
  }
  try {
    problems.throw_if_any();
  } catch (const Error& error) {
    out.said = error.what();
  }
  return out;
}

std::vector<json> form_values(const std::string& text, bool is_word = false) {
  const FormRead read = form_of(text, is_word);
  REQUIRE_MESSAGE(read.parameter, read.said);
  return read.parameter->values;
}

void check_form(const std::string& text, const std::string& said) {
  const FormRead read = form_of(text);
  CHECK_FALSE(read.parameter);
  CHECK_MESSAGE(read.said.find(said) != std::string::npos, text, ": ", read.said);
}

}  // namespace

TEST_CASE("the values of a range are rounded to the decimals of its most precise number") {
  CHECK(form_values("{range: [0, 1, 0.25]}") == std::vector<json>{0, 0.25, 0.5, 0.75, 1});
  CHECK(form_values("{range: [1e-3, 3e-3, 1e-3]}") == std::vector<json>{0.001, 0.002, 0.003});
  CHECK(form_values("{range: [1.5e-1, 1.7e-1, 1E-2]}") == std::vector<json>{0.15, 0.16, 0.17});
  CHECK(form_values("{range: [1e+1, 2.5e+1, 0.5e+1]}") == std::vector<json>{10, 15, 20, 25});
  // A start so small that it is 0 as a double.
  CHECK(form_values("{range: [1e-99999999999, 2, 1]}") == std::vector<json>{0, 1, 2});
  CHECK(form_values("{range: [1.5e1, 20, 2.5]}") == std::vector<json>{15, 17.5, 20});
  CHECK(form_values("{range: [0.3, 0.1, -0.1]}") == std::vector<json>{0.3, 0.2, 0.1});
  CHECK(form_values("{range: [1, 3]}")[0].is_number_integer());
  CHECK(form_values("{range: [1.0, 3]}")[0].is_number_float());
}

TEST_CASE("a range never goes beyond its last number, and has at most 100000 values") {
  CHECK(form_values("{range: [4, 4]}") == std::vector<json>{4});
  CHECK(form_values("{range: [1, 4, 5]}") == std::vector<json>{1});
  CHECK(form_values("{range: [1, 100000]}").size() == 100000);
  check_form("{range: [1, 100001]}", "range of p has 100001 values; a parameter has at most 100000");
  check_form("{range: [9, 1]}", "range of p never comes from 9 to 1 in steps of 1");
  check_form("{range: [1, 9, -2]}", "range of p never comes from 1 to 9 in steps of -2");
  check_form("{range: [1, 2, 3, 4]}", "range of p must be a list of 2 or 3 numbers, not a list");
  check_form("{range: 3}", "range of p must be a list of 2 or 3 numbers, not '3'");
}

TEST_CASE("an interval has two numbers in ascending order, and `int` requires whole numbers") {
  const Parameter large = *form_of("{int: [-9007199254740991, 9007199254740991]}").parameter;
  CHECK(large.low == -(0x1p53 - 1));
  CHECK(large.high == 0x1p53 - 1);
  check_form("{int: [0, 9007199254740992]}", "int of p reaches 9007199254740992");
  check_form("{int: [-9007199254740992, 0]}", "int of p reaches 9007199254740992");
  check_form("{int: [9007199254740992, 9007199254740993]}", "int of p reaches 9007199254740992");
  check_form("{int: [1, 2.5]}", "int of p must be two whole numbers");
  check_form("{int: [1.5, 2]}", "int of p must be two whole numbers");
  check_form("{int: [2, 1]}", "int of p must go from a lower to a higher number");
  check_form("{uniform: [1]}", "uniform of p must be a list of 2 numbers, not a list");
  check_form("{uniform: [1, x]}", "uniform of p must be a list of 2 numbers");
  check_form("{uniform: [0, 1], log: true}", "uniform of p must begin above 0: it has a logarithm");
  check_form("{log_uniform: [-1, 1]}", "log_uniform of p must begin above 0");
  CHECK(form_of("{uniform: [-1, 1]}").parameter->low == -1);
  CHECK(form_of("{uniform: [0, 1], log: false}").parameter->kind == Parameter::Kind::uniform);
  check_form("{log_uniform: [1, 2], log: true}", "log of p stands beside int or uniform alone");
  check_form("{int: [1, 2], log: yes please}", "log of p must be true or false, not 'yes please'");
}

TEST_CASE("a parameter is refused if its values are repeated, missing or of an unknown form") {
  check_form("[a, b, a]", "s.yaml:1:8: p has the value a twice\n");
  check_form("[1, 1.0]", "p has the value 1.0 twice; numbers count by their value, text in quotes does not");
  check_form("[[1], [1]]", "p has the value [1] twice\n");
  check_form("{choice: [1, ~]}", "choice of p has an empty value");
  check_form("{choice: []}", "choice of p has no values");
  check_form("~", "p has no values: give a list, {range: [1, 9, 2]}");
  check_form("{when: {SIZE: 1}}", "p has no values: give a list");
  check_form("{int: [1, 2], zzz: 3}", "'zzz' is no form of values; p takes a list");
  CHECK(form_of("{int: [1, 2], uniform: [1, 2], choice: [1]}").said.find("s.yaml:1:15: p has two forms") ==
        0);
}

TEST_CASE("a parameter keeps the spelling of values such as 3.10 and 1e3") {
  const Spellings list = form_of("[3.10, 1e3, x, 7, '8.0']").parameter->written;
  CHECK(list == Spellings{{3.1, "3.10"}, {1000, "1e3"}});
  CHECK(form_of("1e3").parameter->written == Spellings{{1000, "1e3"}});
  CHECK(form_of("7").parameter->written.empty());
}

TEST_CASE(
    "a condition with a list holds if the parameter has this list, or one of its entries, as its value") {
  const auto when = form_of("{choice: [1], when: {SIZE: [64, 128], OTHER: [1]}}").parameter->when;
  REQUIRE(when.size() == 2);
  CHECK(when[0].path == "env.SIZE");
  CHECK(holds({when[0]}, {{"env.SIZE", 128}}));
  CHECK(holds({when[0]}, {{"env.SIZE", json{64, 128}}}));
  CHECK_FALSE(holds({when[0]}, {{"env.SIZE", json{64}}}));
  check_form("{choice: [1], when: {}}", "when of p must be a map of parameters to values, not an empty one");
  check_form("{choice: [1], when: [SIZE]}", "when of p must be a map of parameters to values, not a list");
}

TEST_CASE("0..1 on the command line is an interval, and 0..1:0.5 is a range with steps") {
  const Parameter negative = *form_of("n=-3..3", true).parameter;
  CHECK(negative.kind == Parameter::Kind::integer);
  CHECK(negative.low == -3);
  CHECK(negative.high == 3);
  const Parameter mixed = *form_of("n=1..2.5", true).parameter;
  CHECK(mixed.kind == Parameter::Kind::uniform);
  CHECK(mixed.high == 2.5);
  CHECK(form_values("n=0..1:0.5", true) == std::vector<json>{0, 0.5, 1});
  CHECK(form_values("n=a:1..2", true) == std::vector<json>{"a:1..2"});
  CHECK(form_values("a=b=c", true) == std::vector<json>{"b=c"});
  const FormRead place = form_of("lr=0.1,0.1", true);
  CHECK(place.said.find("argument:1:8: lr has the value 0.1 twice") == 0);
}
