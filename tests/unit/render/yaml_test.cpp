#include "cli/render/yaml.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

TEST_SUITE_BEGIN("render/yaml");

using mlk::to_yaml;
using nlohmann::json;

TEST_CASE("maps and lists are written in block style") {
  const json value = {{"kind", "Job"},
                      {"spec", {{"args", {"a", "b"}}, {"empty", json::array()}, {"count", 3}}}};
  CHECK(to_yaml(value) ==
        "kind: Job\n"
        "spec:\n"
        "  args:\n"
        "    - a\n"
        "    - b\n"
        "  count: 3\n"
        "  empty: []\n");
}

TEST_CASE("a map in a list begins on the line of the dash") {
  const json value = {{"env", {{{"name", "A"}, {"value", "1"}}, {{"name", "B"}}}}};
  CHECK(to_yaml(value) ==
        "env:\n"
        "  - name: A\n"
        "    value: \"1\"\n"
        "  - name: B\n");
}

TEST_CASE("an empty map or list in a list is written on the line of the dash") {
  CHECK(to_yaml({{"a", {json::object(), json::array(), {{"b", json::object()}}}}}) ==
        "a:\n"
        "  - {}\n"
        "  - []\n"
        "  - b: {}\n");
}

TEST_CASE("text that a YAML reader could read as another type is quoted") {
  for (const char* text : {"yes",   "no",    "On",    "null", "~",    "",    "1e3",  "0x1F", "012",
                           "1_000", ".5",    "12:30", "- a",  "a: b", "# c", "true", "Y",    "N",
                           "OFF",   "False", "-x",    "=x",   "@x",   "a b", "a\tb", "a,b",  "5a"}) {
    CHECK(to_yaml(json(text)) == json(text).dump() + "\n");
  }
  CHECK(to_yaml(json("registry.example/team/trainer")) == "registry.example/team/trainer\n");
  for (const char* plain : {"/a", "_a", "a-b", "a=b", "a_1.b", "yess"})
    CHECK(to_yaml(json(plain)) == std::string(plain) + "\n");
  CHECK(to_yaml(json(std::string(200, 'a'))) == std::string(200, 'a') + "\n");
  CHECK(to_yaml(json(std::string(201, 'a'))) == "\"" + std::string(201, 'a') + "\"\n");
}

TEST_CASE("text of several lines becomes a literal block that keeps the newlines at the end") {
  CHECK(to_yaml(json{{"a", "one\ntwo\n"}}) == "a: |\n  one\n  two\n");
  CHECK(to_yaml(json{{"a", "one\n\ntwo"}}) == "a: |-\n  one\n\n  two\n");
  CHECK(to_yaml(json{{"a", "one\n\n\n"}}) == "a: |+\n  one\n\n\n");
}

TEST_CASE("to_yaml() escapes characters that YAML refuses or reads as line breaks") {
  CHECK(to_yaml(json("a\u2028b")) == "\"a\\u2028b\"\n");
  CHECK(to_yaml(json("a\u2029\u0085b")) == "\"a\\u2029\\u0085b\"\n");
  CHECK(to_yaml(json("\x7f\u0080\u009f\ufeff\ufffe\uffff")) ==
        "\"\\u007f\\u0080\\u009f\\ufeff\\ufffe\\uffff\"\n");
  CHECK(to_yaml(json{{"a", "one\u2028\ntwo\n"}}) == "a: \"one\\u2028\\ntwo\\n\"\n");
  CHECK(to_yaml(json{{"a", "\u00e4\n\U0001f600\n"}}) == "a: |\n  \u00e4\n  \U0001f600\n");
}

TEST_CASE("to_yaml() quotes a text of several lines if a literal block would change it") {
  for (const char* text : {" a\nb", "\na", "a \nb", "a\tb\nc", "a\x01\nb"})
    CHECK_MESSAGE(to_yaml(json{{"k", text}}) == "k: " + json(text).dump() + "\n", text);
}

TEST_CASE("to_yaml() writes valid YAML for lists in lists, and for keys that need quotes") {
  CHECK(to_yaml(json::array({json::array({1, 2}), true, nullptr, 1.5})) ==
        "-\n  - 1\n  - 2\n- true\n- null\n- 1.5\n");
  CHECK(to_yaml(json{{"no", 1}, {"a b", {{"c", "x\ny\n"}}}}) ==
        "\"a b\":\n  c: |\n    x\n    y\n\"no\": 1\n");
  CHECK(to_yaml(json::array({{{"a", {{"b", 1}}}, {"c", "x\ny"}}, "x\ny\n"})) ==
        "- a:\n    b: 1\n  c: |-\n    x\n    y\n- |\n  x\n  y\n");
  CHECK(to_yaml(json::object()) == "{}\n");
  CHECK(to_yaml(json::array()) == "[]\n");
  CHECK(to_yaml(json(7)) == "7\n");
}
