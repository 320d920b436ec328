#include "sweeps/space/forms.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("sweeps/space/forms");

using namespace mlk;
using namespace mlk::sweeps;
using nlohmann::json;

namespace {

constexpr char experiment_text[] =
    "name: x\nmode: single\ntrain: {data: {path: /d}, steps: 1}\nenv: {SIZE: 1}\n";

struct FormsRead {
  std::optional<Parameter> parameter;
  std::string problems;  // the messages; empty if there are none
};

std::string told_by(const Problems& problems) {
  try {
    problems.throw_if_any();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

FormsRead read_text(const std::string& text, const std::string& path = "p") {
  Problems problems;
  const Names names(parse_yaml(experiment_text, "x.yaml"));
  FormsRead out{read_form(path, parse_yaml(text, "s.yaml"), names, problems), ""};
  out.problems = told_by(problems);
  return out;
}

std::vector<json> values_of(const std::string& text) {
  const FormsRead read = read_text(text);
  REQUIRE_MESSAGE(read.parameter, read.problems);
  CHECK(read.parameter->kind == Parameter::Kind::choice);
  return read.parameter->values;
}

FormsRead read_argument(const std::string& argument) {
  Problems problems;
  const Names names(parse_yaml(experiment_text, "x.yaml"));
  FormsRead out;
  if (const std::optional<Word> word = read_word(argument, problems))
    out.parameter = read_form(word->path, word->values, names, problems);
  out.problems = told_by(problems);
  return out;
}

bool says(const FormsRead& read, const std::string& text) {
  return !read.parameter && read.problems.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a list gives a parameter its values, in the order of the list and with their types") {
  CHECK(values_of("[0.1, 0.01, sgd, true]") == std::vector<json>{0.1, 0.01, "sgd", true});
  CHECK(values_of("[[128], [128, 128]]") == std::vector<json>{json{128}, json{128, 128}});
  CHECK(values_of("{choice: [b, a]}") == std::vector<json>{"b", "a"});
  CHECK(values_of("0.5") == std::vector<json>{0.5});
  CHECK(says(read_text("[]"), "p has no values"));
  CHECK(says(read_text("[1, 2, 1.0]"), "p has the value 1.0 twice"));
  CHECK(says(read_text("[3.1, 3.10]"),
             "p has the value 3.1 twice; numbers count by their value, text in quotes"));
  CHECK(values_of("[3.1, '3.10']") == std::vector<json>{3.1, "3.10"});
  CHECK(says(read_text("[1, null]"), "p has an empty value"));
  CHECK(says(read_text("{choice: 3}"), "choice of p must be a list, not '3'"));
}

TEST_CASE("a range has exact decimals, and ends at its last number or before this number") {
  CHECK(values_of("{range: [1, 9, 2]}") == std::vector<json>{1, 3, 5, 7, 9});
  CHECK(values_of("{range: [1, 4]}") == std::vector<json>{1, 2, 3, 4});
  CHECK(values_of("{range: [0.1, 0.5, 0.1]}") == std::vector<json>{0.1, 0.2, 0.3, 0.4, 0.5});
  CHECK(values_of("{range: [3, 1, -1]}") == std::vector<json>{3, 2, 1});
  CHECK(values_of("{range: [1, 8, 3]}") == std::vector<json>{1, 4, 7});
  CHECK(says(read_text("{range: [1, 9, 0]}"), "range of p never comes from 1 to 9 in steps of 0"));
  CHECK(says(read_text("{range: [9, 1, 2]}"), "range of p never comes from 9 to 1"));
  CHECK(says(read_text("{range: [0, 1e12]}"), "a parameter has at most 100000"));
  CHECK(values_of("{range: [9007199254740990, 9007199254740991]}") ==
        std::vector<json>{9007199254740990, 9007199254740991});
  CHECK(says(read_text("{range: [9007199254740991, 9007199254740992]}"),
             "range of p reaches 9007199254740992, from where on numbers are not exact; list its values"));
  CHECK(says(read_text("{range: [-9007199254740993, 0]}"), "reaches 9007199254740992"));
  CHECK(says(read_text("{range: [0, 1e300]}"), "reaches 9007199254740992"));
  CHECK(says(read_text("{range: [1]}"), "range of p must be a list of 2 or 3 numbers"));
  CHECK(says(read_text("{range: [a, b]}"), "range of p must be a list of 2 or 3 numbers"));
}

TEST_CASE("an interval is refused if its second number is not higher than the first") {
  const FormsRead uniform = read_text("{uniform: [0.5, 0.9]}");
  REQUIRE(uniform.parameter);
  CHECK(uniform.parameter->kind == Parameter::Kind::uniform);
  CHECK(uniform.parameter->low == 0.5);
  CHECK(uniform.parameter->high == 0.9);
  CHECK(read_text("{log_uniform: [1e-5, 1e-1]}").parameter->kind == Parameter::Kind::log_uniform);
  CHECK(read_text("{int: [1, 8]}").parameter->kind == Parameter::Kind::integer);
  CHECK(says(read_text("{uniform: [1, 1]}"), "must go from a lower to a higher number"));
  CHECK(says(read_text("{log_uniform: [0, 1]}"), "must begin above 0"));
  CHECK(says(read_text("{int: [0.5, 2]}"), "must be two whole numbers"));
  CHECK(says(read_text("{uniform: [1, 2, 3]}"), "must be a list of 2 numbers"));
  CHECK(read_text("{int: [1, 64], log: true}").parameter->kind == Parameter::Kind::log_integer);
  CHECK(read_text("{log: false, int: [1, 64]}").parameter->kind == Parameter::Kind::integer);
  CHECK(read_text("{uniform: [0.1, 64], log: true}").parameter->kind == Parameter::Kind::log_uniform);
  CHECK(says(read_text("{int: [0, 8], log: true}"), "int of p must begin above 0: it has a logarithm"));
  CHECK(says(read_text("{int: [1, 8], log: 2}"), "log of p must be true or false, not '2'"));
  CHECK(says(read_text("{choice: [1, 8], log: true}"), "log of p stands beside int or uniform alone"));
  CHECK(says(read_text("{log: true}"), "p has no values"));
}

TEST_CASE("a map has exactly one form of values, and the error for a typing mistake suggests a form") {
  CHECK(says(read_text("{unifrom: [1, 2]}"), "'unifrom' is no form of values; did you mean 'uniform'?"));
  CHECK(says(read_text("{zzz: [1, 2]}"), "'zzz' is no form of values; p takes a list, {range"));
  CHECK(says(read_text("{int: [1, 2], range: [1, 2]}"), "p has two forms of values"));
  CHECK(says(read_text("{}"), "p has no values: give a list"));
}

TEST_CASE("a condition names a parameter by its path or last word, with one value or several") {
  const FormsRead read = read_text("{choice: [1, 2], when: {train.optimizer.type: [sgd, adam], SIZE: 3}}");
  REQUIRE_MESSAGE(read.parameter, read.problems);
  REQUIRE(read.parameter->when.size() == 2);
  CHECK(holds(read.parameter->when, {{"train.optimizer.type", "adam"}, {"env.SIZE", 3}}));
  CHECK_FALSE(holds(read.parameter->when, {{"train.optimizer.type", "adamw"}, {"env.SIZE", 3}}));
  CHECK(says(read_text("{choice: [1], when: 3}"), "when of p must be a map of parameters to values"));
  CHECK(says(read_text("{choice: [1], when: {nowhere: 3}}"), "the experiment has no value 'nowhere'"));
}

TEST_CASE("the command line and the file have the same forms of values") {
  const auto values = [](const std::string& argument) {
    const FormsRead read = read_argument(argument);
    REQUIRE_MESSAGE(read.parameter, read.problems);
    return read.parameter->values;
  };
  CHECK(values("lr=0.1,0.01") == std::vector<json>{0.1, 0.01});
  CHECK(values("lr=0.1") == std::vector<json>{0.1});
  CHECK(values("hidden=[128],[128,128]") == std::vector<json>{json{128}, json{128, 128}});
  CHECK(values("opt=sgd,adam") == std::vector<json>{"sgd", "adam"});
  CHECK(values("n=1..9:2") == std::vector<json>{1, 3, 5, 7, 9});
  CHECK(values("x=\"a,b\",c") == std::vector<json>{"a,b", "c"});
  CHECK(read_argument("m=0.5..0.9").parameter->kind == Parameter::Kind::uniform);
  CHECK(read_argument("n=1..9").parameter->kind == Parameter::Kind::integer);
  CHECK(read_argument("lr=1e-5..1e-1:log").parameter->kind == Parameter::Kind::log_uniform);
  CHECK(read_argument("lr=1.0..64:log").parameter->kind == Parameter::Kind::log_uniform);
  CHECK(read_argument("batch=1..64:log").parameter->kind == Parameter::Kind::log_integer);
  CHECK(values("version=1.2..x") == std::vector<json>{"1.2..x"});  // not an interval, but a text
}

TEST_CASE("a word of the command line is refused if it has no values or contains a mistake") {
  CHECK(says(read_argument("lr"), "a parameter is written PATH=VALUES"));
  CHECK(says(read_argument("=1"), "a parameter is written PATH=VALUES"));
  CHECK(says(read_argument("lr="), "a parameter is written PATH=VALUES"));
  CHECK(read_argument("lr=[1,2").problems.find("argument:1:") != std::string::npos);
  CHECK(read_argument("lr=0.9..0.5").problems.find("argument:1:4: ") == 0);
  CHECK(read_argument("lr=1e-4..1:lgo")
            .problems.find("argument:1:12: what follows ':' must be a step, or "
                           "log, not 'lgo'") == 0);
  CHECK(read_argument("lr='1..2:x'").parameter->values == std::vector<json>{"1..2:x"});
}
