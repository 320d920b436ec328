// References ${...} and conditions $if in templates, and the errors for mistakes in them.
#include "cli/render/evaluate.h"

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/render/golden.h"

TEST_SUITE_BEGIN("render/evaluate");

namespace mlk {
namespace {

using nlohmann::json;

const json scope = {{"n", 3},      {"half", 0.5},        {"yes", true},    {"no", false},
                    {"word", "w"}, {"nothing", nullptr}, {"list", {1, 2}}, {"empty", json::array()},
                    {"zero", 0},   {"zero_point", 0.0},  {"blank", ""},    {"worker", {{"count", 5}}}};

json evaluated(const std::string& text) { return evaluate(parse_yaml(text, "t.yaml"), scope); }

std::string refusal(const std::string& text) {
  try {
    evaluated(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("a value that is only one reference gets the type of the value to which it refers") {
  CHECK(evaluated("a: ${n}\nb: \"${half}\"\nc: ${yes}\nd: ${list}\ne: ${worker.count}\nf: ${worker}\n") ==
        json{{"a", 3}, {"b", 0.5}, {"c", true}, {"d", {1, 2}}, {"e", 5}, {"f", {{"count", 5}}}});
}

TEST_CASE("a reference inside a text is replaced by its value") {
  CHECK(evaluated("${word}-${n}-${yes}") == "w-3-true");
  CHECK(evaluated("${n}${n}") == "33");
}

TEST_CASE("$${ becomes a literal ${") {
  CHECK(evaluated("$${n} costs $5 $(MLK_RANK) $$") == "${n} costs $5 $(MLK_RANK) $$");
}

TEST_CASE("a key or list entry is left out if it refers to null") {
  CHECK(evaluated("a: ${nothing}\nb: [1, \"${nothing}\", 2]\n") == json{{"b", {1, 2}}});
}

TEST_CASE("a map is left out if its $if is empty, null, false or 0") {
  for (const char* something : {"${n}", "${yes}", "${word}", "${list}"}) {
    CHECK(evaluated(std::string("a: {b: 1, $if: \"") + something + "\"}") == json{{"a", {{"b", 1}}}});
  }
  for (const char* nothing : {"${no}", "${nothing}", "${empty}", "${zero}", "${zero_point}", "${blank}"}) {
    CHECK(evaluated(std::string("a: {b: 1, $if: \"") + nothing + "\"}\nc: 2") == json{{"c", 2}});
  }
}

TEST_CASE("the error for an unknown name has the template, line and column") {
  CHECK(refusal("a: 1\nb: x-${wrd}\n") ==
        "t.yaml:2:6: there is no ${wrd}; did you mean 'word'?\n  b: x-${wrd}\n       ^");
  CHECK(refusal("b: ${worker.cuont}") ==
        "t.yaml:1:4: there is no ${worker.cuont}; did you mean 'count'?\n  b: ${worker.cuont}\n     ^");
  for (const char* text : {"a: x${list}", "a: x${worker}", "a: x${nothing}", "a: ${nothing}x"})
    CHECK_MESSAGE(refusal(text).find("only text, numbers and booleans") != std::string::npos, text);
  CHECK(refusal("a: x${n").find("not closed") != std::string::npos);
}

TEST_CASE("a list entry is left out if its $if is false") {
  CHECK(evaluated("[{$if: '${no}', a: 1}, 2, {$if: '${yes}', b: '${n}'}]") == json::array({2, {{"b", 3}}}));
  CHECK(evaluated("{$if: '${no}', a: 1}").is_null());
  CHECK(evaluated("a: {$if: some text}\nb: {$if: \"\"}\nc: {$if: null}\n") == json{{"a", json::object()}});
  CHECK(evaluated("a: null\nb: 1.5\nc: \"7\"\n") == json{{"a", nullptr}, {"b", 1.5}, {"c", "7"}});
}

TEST_CASE("numbers and booleans in a text are written as in JSON") {
  CHECK(evaluated("<${half}|${no}|${zero}|${blank}>") == "<0.5|false|0|>");
  CHECK(refusal("a: ${word.length}").find("there is no ${word.length}") != std::string::npos);
  CHECK(refusal("a: ${qqqqqqqq}").starts_with("t.yaml:1:4: there is no ${qqqqqqqq}\n"));
  CHECK(refusal("a: x${n").starts_with("t.yaml:1:4: '${' is not closed; a literal one is written $${"));
  CHECK(refusal("a: ${wrd}\nb: ${hlf}\n").find("'half'") != std::string::npos);  // one error has all mistakes
}

}  // namespace
}  // namespace mlk
