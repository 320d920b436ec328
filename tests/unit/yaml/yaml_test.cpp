// The YAML of experiment files: limits, tags, characters, errors of the parser, and numbers.
#include "cli/yaml/yaml.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("yaml/yaml");

namespace mlk {
namespace {

using nlohmann::json;

std::string yaml_refusal(const std::string& text) {
  try {
    parse_yaml(text, "f");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    const std::string what = error.what();
    return what.substr(0, what.find('\n'));
  }
  return "accepted";
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

TEST_CASE("parse_yaml() refuses a text with more than 1 MiB, 32 levels or 10000 values") {
  CHECK(yaml_refusal(std::string(1 << 20, ' ')) == "accepted");
  CHECK(yaml_refusal(std::string((1 << 20) + 1, ' ')) == "f: larger than 1024 KiB");
  CHECK(yaml_refusal(repeated("[", 32) + repeated("]", 32)) == "accepted");
  CHECK(yaml_refusal(repeated("[", 33) + repeated("]", 33)) == "f:1:33: nested deeper than 32 levels");
  CHECK(yaml_refusal("[" + repeated("a,", 9999) + "]") == "accepted");
  CHECK(yaml_refusal("[" + repeated("a,", 10000) + "]")
            .ends_with("more than 10000 values with all aliases written out"));
}

TEST_CASE("the values and levels of an anchor count again at each of its aliases") {
  // One list, one anchored list of 98 values, then 100 aliases, each of which adds 99 values.
  const std::string anchored = "[&a [" + repeated("x,", 98) + "]" + repeated(",*a", 100);
  CHECK(yaml_refusal(anchored + "]") == "accepted");  // exactly 10000
  CHECK(yaml_refusal(anchored + ",x]").ends_with("more than 10000 values with all aliases written out"));
  const std::string deep = "[&a " + repeated("[", 16) + repeated("]", 16) + ", ";
  CHECK(yaml_refusal(deep + repeated("[", 15) + "*a" + repeated("]", 15) + "]") == "accepted");
  CHECK(yaml_refusal(deep + repeated("[", 16) + "*a" + repeated("]", 16) + "]")
            .ends_with("nested deeper than 32 levels"));
  const std::string map = "[&a {b: {c: [d]}}, ";
  CHECK(yaml_refusal(map + repeated("[", 27) + "*a" + repeated("]", 27) + "]") == "accepted");
  CHECK(yaml_refusal(map + repeated("[", 29) + "*a" + repeated("]", 29) + "]")
            .ends_with("nested deeper than 32 levels"));
}

TEST_CASE("all control characters are refused, except tabs and the ends of lines") {
  CHECK(yaml_refusal("a: b\tc\r\nd: e") == "accepted");
  CHECK(yaml_refusal(std::string("a: b\0", 5)) == "f:1:5: a zero byte: this is not a text file");
  CHECK(yaml_refusal("a: b\nc: \x1f") == "f:2:4: a control character");
  CHECK(yaml_refusal("a: \x7f") == "f:1:4: a control character");
  CHECK(yaml_refusal("ä: \xe4") == "f:1:4: not UTF-8 text");
  CHECK(yaml_refusal("a: \"\\x00\"").ends_with("1:4: a zero byte (\\0), which no program can be given"));
  CHECK(yaml_refusal("\"a\\0\": b").ends_with("1:1: a zero byte (\\0), which no program can be given"));
}

TEST_CASE("a value with quotes or the tag !!str is text") {
  for (const char* text : {"'5'", "\"5\"", "! 5", "!!str 5"}) {
    const YamlNode node = parse_yaml(text, "f");
    CHECK_MESSAGE(to_json(node) == "5", text);
    CHECK_FALSE(node.plain);
  }
  CHECK(parse_yaml("5", "f").plain);
  CHECK(yaml_refusal("!!int 5") == "f:1:1: the tag tag:yaml.org,2002:int is not supported");
  CHECK(yaml_refusal("a: !x [b]") == "f:1:4: the tag !x is not supported");
  CHECK(yaml_refusal("a: ! [b]") == "accepted");
}

TEST_CASE("errors of the YAML parser are reported in words for users") {
  CHECK(yaml_refusal("a: 'b").ends_with(": a quote is not closed"));
  CHECK(yaml_refusal("a: [b").ends_with(": a '[' is not closed, or a comma is missing"));
  CHECK(yaml_refusal("a: [b c: d e: f]").find("not valid YAML") == std::string::npos);
  CHECK(yaml_refusal("a: {b: c").ends_with(": a '{' is not closed, or a comma is missing"));
  CHECK(yaml_refusal("a: b: c") ==
        "f:1:5: a value cannot stand here; indent it, or quote text that has ': ' in it");
  CHECK(yaml_refusal("a: `b`") == "f:1:4: this character cannot begin a value; quote the text");
  CHECK(yaml_refusal("a:\n \tb: c") == "f:2:2: a tab in the indentation; YAML allows only blanks");
  CHECK(yaml_refusal("a: *b") == "f:1:4: not valid YAML: the referenced anchor is not defined");
  CHECK(yaml_refusal("a: [*b]\n\tc: d") == "f:1:5: not valid YAML: the referenced anchor is not defined");
}

TEST_CASE("the two escapes of a surrogate pair become one character if they are in double quotes") {
  const YamlNode map = parse_yaml(R"({"run": "echo \ud83d\ude00", "k\uD83D\uDE00": 1})", "f");
  CHECK(map.find("run")->text == "echo \U0001f600");
  CHECK(map.find("k\U0001f600") != nullptr);
  const std::pair<const char*, const char*> table[] = {
      {R"(&a "\ud83d\ude00")", "\U0001f600"},
      {R"(!!str "x\ud83d\ude00y")", "x\U0001f600y"},
      {R"("\\ud83d\\ude00")", R"(\ud83d\ude00)"},
      {R"('\ud83d\ude00')", R"(\ud83d\ude00)"},
      {R"(it is "\ud83d\ude00")", R"(it is "\ud83d\ude00")"},
      {"|-\n  \"\\ud83d\\ude00\"", R"("\ud83d\ude00")"},
      {"a # \"\\ud83d\\ude00\"", "a"},
  };
  for (const auto& [yaml, text] : table) CHECK_MESSAGE(parse_yaml(yaml, "f").text == text, yaml);
  CHECK(yaml_refusal(R"(["\ud83d\ude00", b: c: d])").starts_with("f:1:"));
  CHECK(yaml_refusal(R"(["\ud83d\ude00", !x b])") == "f:1:18: the tag !x is not supported");
  CHECK(yaml_refusal(R"(["\ud83d\ude00 ", "\ud83d"])") ==
        R"(f:1:26: the escape before this place is not a character; a half such as \ud83d needs the other, )"
        R"(\ude00, behind it)");
}

TEST_CASE("a bracket that is never closed is reported at the end of the last line") {
  CHECK(yaml_refusal("a: b\nc: [d\n\n\n").starts_with("f:2:6: "));
  CHECK(yaml_refusal("c: [d").starts_with("f:1:6: "));
}

TEST_CASE("a second document, a repeated key and a key that is no word are refused") {
  CHECK(yaml_refusal("---\na: b\n...\n") == "accepted");
  CHECK(yaml_refusal("a: b\n---\nc: d\n") ==
        "f:2:1: a second document begins here; one file is one experiment");
  CHECK(yaml_refusal("a: b\nb: c\na: d\n") == "f:3:1: 'a' is given twice");
  CHECK(yaml_refusal("{a: b}: c") == "f:1:1: a key must be one word of text");
  CHECK(yaml_refusal("a: &x [*x]") == "f:1:8: this alias refers to a value that holds it");
}

TEST_CASE("an empty text is a null value") {
  const YamlNode nothing = parse_yaml("", "f");
  CHECK(nothing.kind == YamlNode::Kind::null);
  REQUIRE(nothing.place.source != nullptr);
  CHECK(nothing.place.source->name == "f");
  const YamlNode map = parse_yaml("a:\n  b:\nc: ~\n", "f");
  const YamlNode* b = map.find("a")->find("b");
  CHECK(b->place.line == 1);
  CHECK(b->place.column == 2);
  CHECK(map.find("c")->place.line == 2);
  CHECK(map.find("c")->place.column == 3);
  CHECK(map.find("d") == nullptr);
}

TEST_CASE("free content becomes JSON: text, numbers, true, false, null, lists and maps") {
  const std::pair<std::string, json> table[] = {
      {"true", true},
      {"True", true},
      {"TRUE", true},
      {"tRUE", "tRUE"},
      {"false", false},
      {"False", false},
      {"FALSE", false},
      {"on", "on"},
      {"0", 0},
      {"-7", -7},
      {"-0", 0},
      {"00", "00"},
      {"1.5", 1.5},
      {"-.5", -0.5},
      {"1e2", 100.0},
      {"1E-2", 0.01},
      {"1e+2", 100.0},
      {"1e", "1e"},
      {"+1", "+1"},
      {"1-2", "1-2"},
      {"~", nullptr},
      {"null", nullptr},
      {"'true'", "true"},
      {"\"1.5\"", "1.5"},
      {"[1, a]", json{1, "a"}},
      {"{a: {b: 1}}", {{"a", {{"b", 1}}}}},
      {"9223372036854775807", 9223372036854775807},
      {"-9223372036854775808", std::numeric_limits<std::int64_t>::min()},
      {"9223372036854775808", std::uint64_t{9223372036854775808u}},
      {"18446744073709551615", std::numeric_limits<std::uint64_t>::max()}};
  for (const auto& [text, value] : table) {
    CHECK_MESSAGE(to_json(parse_yaml(text, "f")) == value, text);
    CHECK_MESSAGE(to_json(parse_yaml(text, "f")).type() == value.type(), text);
  }
  for (const char* beyond : {"18446744073709551616", "-9223372036854775809"})
    CHECK(to_json(parse_yaml(beyond, "f")).is_number_float());
}

}  // namespace
}  // namespace mlk
