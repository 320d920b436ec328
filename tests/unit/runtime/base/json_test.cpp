#include "runtime/base/json.h"

#include <stdexcept>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/base/json");

namespace mlk::rt {
namespace {
namespace bounded_json {

std::string nested(int levels, const char* open, const char* close) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += open;
  text += "1";
  for (int i = 0; i < levels; ++i) text += close;
  return text;
}

std::string refusal(const std::string& text) {
  try {
    parse_json(text, "the text");
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace bounded_json

TEST_CASE("JSON may be nested 32 levels deep, in lists and in objects, and no deeper") {
  using namespace bounded_json;
  CHECK(most_json_levels == 32);
  for (const auto& [open, close] : {std::pair{"[", "]"}, {"{\"a\":", "}"}}) {
    CHECK(refusal(nested(32, open, close)) == "");
    CHECK(refusal(nested(33, open, close)) == "the text: nested deeper than 32");
  }
  CHECK(refusal(nested(16, "[{\"a\":", "}]")) == "");
  CHECK(refusal(nested(17, "[{\"a\":", "}]")) == "the text: nested deeper than 32");
  const std::string flat =
      "[" + nested(31, "[", "]") + ",[" + nested(30, "[", "]") + "],{\"a\":[],\"b\":{}}]";
  CHECK(refusal(flat) == "");
}

TEST_CASE("JSON of 16 MiB is parsed, and JSON that is one byte longer is refused") {
  using bounded_json::refusal;
  CHECK(most_json_bytes == 16 * 1024 * 1024);
  std::string text = "{\"a\":1}";
  text.resize(most_json_bytes, ' ');
  CHECK(refusal(text) == "");
  text += ' ';
  CHECK(refusal(text) == "the text: more than 16 MiB of JSON");
}

TEST_CASE(
    "parse_json() returns the values of valid JSON, and the error for invalid JSON begins with the given "
    "name") {
  const nlohmann::json read = parse_json(R"({"b":[1,-2.5,"x",null,true],"a":{}})", "x");
  CHECK(read == nlohmann::json{{"a", nlohmann::json::object()}, {"b", {1, -2.5, "x", nullptr, true}}});
  for (const char* text : {"", "{", "[1,]", "nul", "{}{}", "\xff"}) {
    CAPTURE(text);
    CHECK(bounded_json::refusal(text).starts_with("the text: not JSON: "));
  }
}

}  // namespace
}  // namespace mlk::rt
