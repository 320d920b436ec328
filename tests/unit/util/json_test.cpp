#include "cli/util/json.h"

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/util/error.h"

TEST_SUITE_BEGIN("util/json");

namespace {

using nlohmann::json;

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::string problem(std::string_view text, const mlk::JsonBounds& bounds = {}) {
  try {
    mlk::parse_json(text, "x", bounds);
  } catch (const mlk::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("parse_json() accepts JSON with up to 200 levels") {
  CHECK(mlk::parse_json(R"({"a": [1, "]]]]"]})", "x") == json{{"a", {1, "]]]]"}}});
  CHECK(mlk::json_or_null("[null]") == json::array({nullptr}));
  CHECK(mlk::parse_json(nested(200), "x").is_array());
}

TEST_CASE("parse_json() refuses JSON that is nested too deeply") {
  CHECK(problem(nested(201)) == "x: nested deeper than 200 levels");
  CHECK(problem(nested(3), {.depth = 2}) == "x: nested deeper than 2 levels");
  CHECK(problem(nested(2), {.depth = 2}).empty());
  std::string objects;
  for (int i = 0; i < 400'000; ++i) objects += "{\"a\":";
  CHECK(problem(objects) == "x: nested deeper than 200 levels");
  CHECK(mlk::json_or_null(nested(1'000'000)).is_null());
  // An escaped quote and brackets in a string do not change the count.
  CHECK(problem(R"(["\"[[[", [[1]]])", {.depth = 2}) == "x: nested deeper than 2 levels");
  CHECK(problem(R"(["\\", "[[[[[["])", {.depth = 1}).empty());
}

TEST_CASE("parse_json() refuses JSON with more values than the bound") {
  CHECK(problem("[1,2,3]", {.depth = 9, .values = 4}).empty());
  CHECK(problem("[1,2,3]", {.depth = 9, .values = 3}) == "x: more than 3 values");
  CHECK(problem("[{},{},[]]", {.depth = 9, .values = 4}) == "x: more than 4 values");
}

TEST_CASE("the error for text that is not JSON does not repeat the text") {
  for (const char* bad : {"", "{", "[1,]", "password", "{\"a\": 1} x", "1e999", "\"\xff\"", "[\"\x1b\"]"}) {
    CHECK_MESSAGE(problem(bad).find("x is not JSON") == 0, bad);
    CHECK(mlk::json_or_null(bad).is_null());
  }
  CHECK(problem("{\"token\": hunter2}").find("hunter") == std::string::npos);
}

TEST_CASE("the error for text that is not JSON says at which byte the parser stopped") {
  try {
    mlk::parse_json("[1,\n 2,]", "x");
    FAIL("nothing was thrown");
  } catch (const mlk::NotJson& error) {
    CHECK(error.byte == 8);
    CHECK(error.what() == std::string("x is not JSON: byte 8"));
    CHECK(error.code() == mlk::ExitCode::failure);
  }
}

TEST_CASE("json_text() escapes terminal controls without changing the value") {
  const json value = {{"a\x1b", "\u009b31m\u202e\x7f\u2028 gr\u00fcn\nb"}};
  const std::string text = mlk::json_text(value);
  CHECK(text == "{\"a\\u001b\":\"\\u009b31m\\u202e\\u007f\\u2028 gr\u00fcn\\nb\"}");
  CHECK(mlk::parse_json(text, "x") == value);
  CHECK(mlk::parse_json(mlk::json_text(value, 2), "x") == value);
  CHECK(mlk::json_text("a\x9b\xff") == "\"a\ufffd\ufffd\"");
}
