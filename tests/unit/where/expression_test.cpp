// The meaning of expressions of --where, and the errors for mistakes in their syntax.
#include "cli/where/expression.h"

#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "cli/util/error.h"
#include "tests/unit/where/refusal.h"

TEST_SUITE_BEGIN("where/expression");

namespace mlk::sweeps {
namespace {

using nlohmann::json;
using test::refusal_of;

bool matches_values(const std::string& text, const json& values) {
  return parse_expression(text, "--where").matches([&](const std::string& name) -> const json* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : &*found;
  });
}

std::string parse_refusal(const std::string& text) {
  return refusal_of([&] { parse_expression(text, "--where"); });
}

std::string printed_expression(const std::string& text) {
  return to_string(parse_expression(text, "--where"));
}

const json one_trial = {{"lr", 0.01},
                        {"hidden", {128, 128}},
                        {"train.optimizer.type", "sgd"},
                        {"nesterov", true},
                        {"state", "Succeeded"},
                        {"step", 3000},
                        {"note", "it's a \"test\""},
                        {"empty", nullptr},
                        {"loss", std::numeric_limits<double>::quiet_NaN()},
                        {"gap", std::numeric_limits<double>::infinity()}};

void check_matches(const char* text, bool expected) {
  CAPTURE(text);
  CHECK(matches_values(text, one_trial) == expected);
}

TEST_CASE("numbers compare by value") {
  for (const char* text : {"lr == 0.01", "lr==1e-2", "lr == .01", "lr != 0.1", "lr < 0.02", "lr <= 0.01",
                           "lr >= 0.01", "lr > -1", "step == 3000.0", "step > 2999.5", "lr < 1e300"})
    check_matches(text, true);
  for (const char* text :
       {"lr == 0.1", "lr != 0.01", "lr < 0.01", "lr <= 0.001", "lr > 0.01", "lr >= 1", "step < 3000"})
    check_matches(text, false);
}

TEST_CASE("whole numbers compare exactly, even beyond 2^53 and 2^63") {
  const json large = {{"n", 9007199254740993},
                      {"u", std::uint64_t{18446744073709551615u}},
                      {"m", -1},
                      {"f", 9007199254740992.0},
                      {"t", "9007199254740993"},
                      {"T", "+18446744073709551615"},
                      {"list", json::array({9007199254740993})},
                      {"maps", json::array({{{"a", std::uint64_t{18446744073709551615u}}}})},
                      {"low", "-9007199254740993"},
                      {"half", 9007199254740.5}};
  for (const std::string text : {"n == 9007199254740993",
                                 "n != 9007199254740992",
                                 "n > 9007199254740992.0",
                                 "n != 9007199254740992.0",
                                 "u > 9007199254740993",
                                 "u < 18446744073709551616.0",
                                 "u > 1.5",
                                 "m < 9007199254740993",
                                 "m > -1.5",
                                 "m < 0.5",
                                 "m < -0.5",
                                 "m == -1.0",
                                 "m > -1e300",
                                 "f < 9007199254740993",
                                 "f == 9007199254740992",
                                 "t == 9007199254740993",
                                 "t > 9007199254740992",
                                 "t > 9007199254740992.0",
                                 "t in [9007199254740993]",
                                 "T == 18446744073709551615",
                                 "T > -1",
                                 "list == [9007199254740993]",
                                 "list != [9007199254740992.0]",
                                 "maps == [{a: 18446744073709551615}]",
                                 "maps != [{a: -1}]",
                                 "low < -9007199254740992",
                                 "half > 9007199254740",
                                 "half < 9007199254741"}) {
    CAPTURE(text);
    CHECK(matches_values(text, large));
  }
  for (const std::string text :
       {"n == 9007199254740992", "n == 9007199254740992.0", "u == -1", "u > 18446744073709551616.0",
        "f == 9007199254740993", "f >= 9007199254740993", "t == 9007199254740992", "t <= 9007199254740992.0",
        "list == [9007199254740992]", "list == [9007199254740993, 1]", "maps == [{a: -1}]",
        "maps == [{b: 1}]", "low == -9007199254740992"}) {
    CAPTURE(text);
    CHECK_FALSE(matches_values(text, large));
  }
}

TEST_CASE("text compares byte by byte, with or without quotes") {
  for (const char* text :
       {"train.optimizer.type == sgd", "train.optimizer.type == 'sgd'", "train.optimizer.type == \"sgd\"",
        "train.optimizer.type != SGD", "train.optimizer.type < 'sge'", "train.optimizer.type >= \"sgd\"",
        "note == 'it''s a \"test\"'", R"(note == "it's a \"test\"")",
        R"("train.optimizer.type" == "s\u0067d")"})
    check_matches(text, true);
  check_matches("train.optimizer.type == SGD", false);
  check_matches("train.optimizer.type > 'sgd'", false);
}

TEST_CASE("comparisons with `state` and `phase` ignore case, and comparisons with other names do not") {
  for (const char* text : {"state == Succeeded", "state==succeeded", "state == 'SUCCEEDED'",
                           "state in [failed, succeeded]", "state != failed", "state not in [failed]"})
    check_matches(text, true);
  check_matches("state != SUCCEEDED", false);
  CHECK(matches_values("phase == running", {{"phase", "Running"}}));
  CHECK_FALSE(matches_values("mode == PS", {{"mode", "ps"}}));
}

TEST_CASE("a pattern matches only text") {
  for (const char* text :
       {"train.optimizer.type =~ 'gd'", "train.optimizer.type =~ '^s.d$'", R"(note =~ "\"te.t\"")",
        "state =~ '^succ'", "not train.optimizer.type =~ 'SGD'", "not lr =~ '0'", "not hidden =~ '128'",
        "not empty =~ '.*'", "not absent =~ '.*'", "not nesterov =~ 'true'"})
    check_matches(text, true);
  check_matches("train.optimizer.type =~ '^gd'", false);
}

TEST_CASE("bare words have the types that they have in the experiment file") {
  check_matches("nesterov == true", true);
  check_matches("nesterov == 'true'", false);
  check_matches("nesterov == 1", false);
  CHECK(matches_values("cpu == 250m", {{"cpu", "250m"}}));
  CHECK(matches_values("day == 2024-01-01", {{"day", "2024-01-01"}}));
  CHECK(matches_values("id == 007", {{"id", "007"}}));
  CHECK_FALSE(matches_values("id == '7'", {{"id", 7}}));
}

TEST_CASE("lists and maps are equal if all of their values are equal") {
  check_matches("hidden == [128,128]", true);
  check_matches("hidden == [ 128.0, 128 ]", true);
  check_matches("hidden != [128]", true);
  check_matches("hidden == [128]", false);
  check_matches("hidden == 128", false);
  check_matches("hidden in [[64], [128,128]]", true);
  CHECK(matches_values("o == {type: adam, 'lr': [1, {}]}",
                       {{"o", {{"type", "adam"}, {"lr", {1, json::object()}}}}}));
}

TEST_CASE("`in` is true for the values of the list, and `not in` for all other values") {
  check_matches("train.optimizer.type in [sgd, adam]", true);
  check_matches("train.optimizer.type in [SGD, adam]", false);
  check_matches("lr in [0.1, 1e-2]", true);
  check_matches("lr not in [0.1, 0.001]", true);
  check_matches("lr not in [0.1, 0.01]", false);
  check_matches("lr in []", false);
  check_matches("lr not in []", true);
}

TEST_CASE("text compares with a number by value if the whole text is a number") {
  const json values = {{"LR", "0.8"}, {"STEPS", "3000"}, {"E", "1e-3"}, {"MEMORY", "16Gi"}, {"M", "nan"}};
  for (const char* text :
       {"LR > 0.5", "LR == 0.80", "LR in [0.1, 0.8]", "LR != 1", "LR not in [1]", "LR == '0.8'", "LR < '1'",
        "STEPS >= 3000", "STEPS > 999", "E < 0.01", "MEMORY != 16", "MEMORY == 16Gi", "M == nan"}) {
    CAPTURE(text);
    CHECK(matches_values(text, values));
  }
  for (const char* text : {"LR > 0.8", "LR < 0.5", "LR == '0.80'", "STEPS < 999", "MEMORY > 1", "MEMORY < 99",
                           "MEMORY == 16", "M < 1", "M > 1"}) {
    CAPTURE(text);
    CHECK_FALSE(matches_values(text, values));
  }
}

TEST_CASE("two values of different types are unequal, and neither is less than the other") {
  check_matches("lr == '0.01'", false);
  check_matches("lr != '0.01'", true);
  check_matches("lr < 'z'", false);
  check_matches("lr >= 'a'", false);
  check_matches("state < 5", false);
  check_matches("state > 5", false);
  check_matches("nesterov < 5", false);
  check_matches("hidden > 5", false);
}

TEST_CASE("a missing value equals null, and every comparison with another value is false") {
  for (const std::string name : {"absent", "empty"}) {
    CAPTURE(name);
    for (const char* right : {" == null", " in [1, null]"}) CHECK(matches_values(name + right, one_trial));
    for (const char* right :
         {" == 1", " != 1", " < 1", " <= 1", " > 1", " >= 1", " in [1, a]", " not in [1]", " not in []",
          " == ''", " != null", " not in [null]", " == nan", " == inf", " != nan", " > -inf"})
      CHECK_FALSE(matches_values(name + right, one_trial));
    CHECK(matches_values("not " + name + " == 1", one_trial));
  }
  check_matches("lr != null", true);
  check_matches("lr == null", false);
}

TEST_CASE("nan and inf compare by value, whether they are numbers or text") {
  const json words = {{"loss", "nan"}, {"gap", "inf"}, {"low", "-inf"}, {"lr", 0.01}, {"name", "x"}};
  for (const json& values : {one_trial, words}) {
    for (const char* text :
         {"loss == nan", "loss == NaN", "loss == 'nan'", "loss in [1, nan]", "loss != 1", "loss != null",
          "not loss < 1", "gap == inf", "gap == Infinity", "gap > 1e300", "gap >= inf", "gap != nan",
          "lr < inf or gap > 5", "lr < inf", "lr > -inf", "lr != inf", "lr not in [nan, inf]"}) {
      CAPTURE(text);
      CHECK(matches_values(text, values));
    }
    for (const char* text : {"loss < 1", "loss > 1", "loss == 1", "loss == null", "loss == inf", "gap < 1",
                             "gap == -inf", "gap == null", "lr == nan", "lr >= inf"}) {
      CAPTURE(text);
      CHECK_FALSE(matches_values(text, values));
    }
  }
  CHECK(matches_values("low < -1e300 && low == -inf", words));
  CHECK(matches_values("name != inf && not name < inf", words));
}

TEST_CASE("`not` binds more tightly than `and`, and `and` more tightly than `or`") {
  const json values = {{"a", 1}, {"b", 2}};
  const auto truth = [&](const char* text) { return matches_values(text, values); };
  CHECK(truth("a == 1 || a == 2 && b == 3"));
  CHECK_FALSE(truth("(a == 1 || a == 2) && b == 3"));
  CHECK(truth("a == 1 or a == 2 and b == 3"));
  CHECK(truth("!a == 2 && b == 2"));
  CHECK(truth("not (a == 2 or b == 3)"));
  CHECK(truth("! ! a == 1"));
  CHECK(truth("((a==1))&&!b==1"));
}

TEST_CASE("an expression without parts matches every trial") {
  CHECK(Expression().matches([](const std::string&) { return nullptr; }));
  CHECK(Expression().names().empty());
}

TEST_CASE("an expression is printed in a normal form with the same meaning") {
  CHECK(printed_expression("a==1&&b!=x||!c<2") == "a == 1 and b != \"x\" or not c < 2");
  CHECK(printed_expression("(a==1&&(b==2&&c==3))&&(d==4||e==5)") ==
        "a == 1 and b == 2 and c == 3 and (d == 4 or e == 5)");
  CHECK(printed_expression("!(a==1||(b==2))") == "not (a == 1 or b == 2)");
  CHECK(printed_expression("!!(a==1 && b==2)") == "not not (a == 1 and b == 2)");
  CHECK(printed_expression("\"a b\" in [x,[1,{k:null}]]") == R"("a b" in ["x",[1,{"k":null}]])");
  CHECK(printed_expression("'not' not in ['\x1b']") == R"("not" not in ["\u001b"])");
  CHECK(printed_expression("'5' == NaN") == "\"5\" == \"nan\"");
  CHECK(printed_expression("a == null") == "a == null");
  CHECK(printed_expression("a=~'b\\.c'") == R"(a =~ "b\\.c")");
  for (const char* text : {"a == 1 and b != \"x\" or not c < 2", "not not (a == 1 and b == 2)"})
    CHECK(printed_expression(text) == text);
}

TEST_CASE("the error for an invalid expression shows the place of the mistake") {
  CHECK(parse_refusal("lr < 0.01 && state = Succeeded") ==
        "--where:1:20: '=' does not compare; write '=='\n"
        "  lr < 0.01 && state = Succeeded\n"
        "                     ^");
  CHECK(parse_refusal("lr < 1\n  && (accuracy >") ==
        "--where:2:17: a number, or text in quotes, must follow '>', not the end\n"
        "    && (accuracy >\n"
        "                  ^");
}

TEST_CASE("each kind of mistake in an expression has its own message") {
  const auto said = [](const std::string& text) {
    const std::string all = parse_refusal(text);
    return all.substr(0, all.find('\n'));
  };
  CHECK(said("") == "--where:1:1: the expression is empty");
  CHECK(said(" \n ") == "--where:1:1: the expression is empty");
  CHECK(said("lr") == "--where:1:3: a comparison (== != < <= > >= =~ in) must follow 'lr', not the end");
  CHECK(said("lr 5") == "--where:1:4: a comparison (== != < <= > >= =~ in) must follow 'lr', not '5'");
  CHECK(said("0.1 > lr") == "--where:1:1: a name stands on the left, the number on the right: lr < 0.1");
  CHECK(said("lr ==") == "--where:1:6: a value must stand here, not the end");
  CHECK(said("lr == 1 and") == "--where:1:12: a name must stand here, not the end");
  CHECK(said("lr == 1 & b == 2") == "--where:1:9: '&' joins no comparisons; write '&&'");
  CHECK(said("lr == 1 b == 2") == "--where:1:9: '&&', '||' or the end must follow here, not 'b'");
  CHECK(said("0 < 1") == "--where:1:1: a name stands on the left, the number on the right: lr < 0");
  CHECK(said("lr > 0 < 1") == "--where:1:8: '&&', '||' or the end must follow here, not '<'");
  CHECK(said("(lr == 1") == "--where:1:1: this '(' is not closed");
  CHECK(said("(lr == 1 5)") == "--where:1:10: '&&', '||' or ')' must follow here, not '5'");
  CHECK(said("lr == 1)") == "--where:1:8: this ')' closes nothing");
  CHECK(said("lr == [1, 2") == "--where:1:7: this '[' is not closed");
  CHECK(said("lr == [1 2]") == "--where:1:10: ',' or ']' must follow here, not '2'");
  CHECK(said("lr == [1,]") == "--where:1:10: a value must stand here, not ']'");
  CHECK(said("o == {a 1}") == "--where:1:9: ':' must follow the key, not '1'");
  CHECK(said("o == {a: 1") == "--where:1:6: this '{' is not closed");
  CHECK(said("o == {[1]: 1}") == "--where:1:7: a key must stand here, not '['");
  CHECK(said("lr == 'a") == "--where:1:7: this quote is not closed");
  CHECK(said("lr == \"a\\\"") == "--where:1:7: this quote is not closed");
  CHECK(said("lr == \"\\x\"") ==
        "--where:1:7: text in double quotes is written as in JSON; '...' takes it as it is");
  CHECK(said("lr ~ 'a'") == "--where:1:4: '~' alone is not an operator; write a pattern after '=~'");
  CHECK(said("lr =~ sgd") == "--where:1:7: a pattern in quotes must follow '=~', not 'sgd'");
  CHECK(said("lr =~") == "--where:1:6: a pattern in quotes must follow '=~', not the end");
  CHECK(said("lr =~ '(a'") == "--where:1:7: the pattern is not valid: missing ): (a");
  CHECK(said("lr =~ ''") == "--where:1:7: the pattern is empty");
  CHECK(said("lr == #1") == "--where:1:7: '#' is not an operator; put text with this character in quotes");
  CHECK(said("lr in 1") == "--where:1:7: a list must follow 'in', for example [0.1, 0.01], not '1'");
  CHECK(said("lr not 1") == "--where:1:8: 'in' must follow 'not' here, not '1'");
  CHECK(said("lr == and") == "--where:1:7: a value must stand here; the text and is written 'and'");
  CHECK(said("and == 1") == "--where:1:1: a name must stand here, not 'and'");
  CHECK(said("'' == 1") == "--where:1:1: a name must stand here, not empty quotes");
  CHECK(said("lr < accuracy") == "--where:1:6: a number, or text in quotes, must follow '<', not 'accuracy'");
  CHECK(said("lr < [1]") == "--where:1:6: a number, or text in quotes, must follow '<', not '['");
  CHECK(said("lr < true") == "--where:1:6: a number, or text in quotes, must follow '<', not 'true'");
  CHECK(said("lr == 1e999") == "--where:1:7: the number 1e999 is too large");
  CHECK(said("lr == \xff") == "--where:1:1: the expression is not UTF-8 text");
}

TEST_CASE("an expression is at most 4 KiB long and 64 levels deep") {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '(') + "a == 1" + std::string(levels, ')');
  };
  CHECK(printed_expression(nested(63)) == "a == 1");
  CHECK(parse_refusal(nested(64)).find(":65: nested deeper than 64 levels") != std::string::npos);
  CHECK(parse_refusal(std::string(4000, '!')).find("nested deeper than 64 levels") != std::string::npos);
  CHECK(printed_expression("a == " + std::string(63, '[') + std::string(63, ']')).size() == 5 + 2 * 63);
  CHECK(parse_refusal("a == " + std::string(2000, '[')).find("nested deeper") != std::string::npos);
  CHECK(parse_refusal("a == " + std::string(4091, 'x')) == "accepted");
  CHECK(parse_refusal("a == " + std::string(4092, 'x'))
            .starts_with("--where:1:1: the expression is longer than 4096 bytes"));
}

TEST_CASE("a whole number above the range of int64 is larger than every number in this range") {
  const json large = {{"u", std::uint64_t{18446744073709551614u}}, {"s", 9223372036854775807}};
  for (const char* text : {"u > 9223372036854775807", "u > -1", "u != -2", "u not in [-2, 5]",
                           "s == 9223372036854775807", "s > 9223372036854775806"}) {
    CAPTURE(text);
    CHECK(matches_values(text, large));
  }
  for (const char* text : {"u < 9223372036854775807", "u <= 5", "u == -2", "s > 9223372036854775807"}) {
    CAPTURE(text);
    CHECK_FALSE(matches_values(text, large));
  }
}

TEST_CASE("names and bare words may contain letters, digits and the characters _ . - + / @") {
  for (const char* word :
       {"a_b", "a.b", "a-b", "a+b", "a/b", "a@b", "Zz", "9a", "\xc3\xa4", "andy", "0.1.2"}) {
    CAPTURE(word);
    CHECK(matches_values(std::string(word) + " == " + word, {{word, word}}));
  }
  for (const char* sign : {"#", "$", "%", ";", "?", "\\", "^", "`", "*"}) {
    CAPTURE(sign);
    CHECK(parse_refusal(std::string("a == b") + sign).find("is not an operator") != std::string::npos);
  }
  CHECK(parse_refusal("a == 1 | b == 2").find("'|' joins no comparisons; write '||'") != std::string::npos);
  CHECK(parse_refusal("a == b,").find("must follow here, not ','") != std::string::npos);
  for (const char* word : {"and", "or", "not", "in"})
    CHECK(parse_refusal(std::string("a == ") + word).find("is written '") != std::string::npos);
}

TEST_CASE("blanks between the words of an expression do not matter") {
  CHECK(matches_values("\ta\r\n==\t1 ", {{"a", 1}}));
  CHECK(matches_values("a>=1&&a<=1||a!=1", {{"a", 1}}));
  CHECK(matches_values("a in[ ]or a==NULL", json::object()));
  CHECK(matches_values("a == {} and b == []", {{"a", json::object()}, {"b", json::array()}}));
}

TEST_CASE("only `age` and `duration` compare with times such as 2h") {
  try {
    parse_expression("lr <", "--where");
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.hint() == "write for example: lr < 0.01 && state == Succeeded");
  }
  for (const char* name : {"age", "duration"})
    CHECK(parse_refusal(name + std::string(" > 2h")) == "accepted");
  for (const char* name : {"ages", "step"})
    for (const char* op : {"<", "<=", ">", ">="})
      CHECK(parse_refusal(name + std::string(" ") + op + " 2h")
                .find(", must follow '" + std::string(op) + "'") != std::string::npos);
}

}  // namespace
}  // namespace mlk::sweeps
