#include "cli/util/json_path.h"

#include <cstdint>
#include <limits>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

TEST_SUITE_BEGIN("util/json_path");

using namespace mlk;
using nlohmann::json;

TEST_CASE("values of an unexpected type are treated as missing") {
  const json object = R"({"a": {"b": 3, "text": "x", "list": [1], "time": "2026-01-03T12:00:00Z",
                               "large": 18446744073709551615, "small": -5000000000}})"_json;
  CHECK(at_path(object, {"a", "b"}) == 3);
  CHECK(at_path(object, {"a", "none"}).is_null());
  CHECK(at_path(object, {"a", "list", "b"}).is_null());
  CHECK(text_of(object, {"a", "text"}) == "x");
  CHECK(text_of(object, {"a", "b"}).empty());
  CHECK(number_of(object, {"a", "b"}, 7) == 3);
  CHECK(number_of(object, {"a", "text"}, 7) == 7);
  CHECK(number_of(object, {"a", "large"}, 7) == 1'000'000'000);
  CHECK(number_of(object, {"a", "small"}, 7) == -1'000'000'000);
  CHECK(count_of(object, {"a", "large"}, 7) == std::numeric_limits<std::int64_t>::max());
  CHECK(count_of(object, {"a", "small"}, 7) == -5'000'000'000);
  CHECK(count_of(object, {"a", "text"}, 7) == 7);
  CHECK(time_of(object, {"a", "time"}) == parse_time("2026-01-03T12:00:00Z"));
  CHECK_FALSE(time_of(object, {"a", "text"}));
  CHECK_FALSE(time_of(object, {"a", "b"}));
}

TEST_CASE("number_of() turns every whole number into an int between -10^9 and 10^9") {
  const json object =
      json::parse(R"({"a": 18446744073709551615, "b": -9223372036854775808, "c": 7, "d": 1.5})");
  CHECK(number_of(object, {"a"}, -1) == 1'000'000'000);
  CHECK(number_of(object, {"b"}, -1) == -1'000'000'000);
  CHECK(number_of(object, {"c"}, -1) == 7);
  CHECK(number_of(object, {"d"}, -1) == -1);
  CHECK(number_of(object, {"a", "b"}, -1) == -1);
}

TEST_CASE("texts_in() returns the texts in a list, and nothing for other values") {
  CHECK(texts_in(json{"a", 1, nullptr, "b"}) == std::vector<std::string>{"a", "b"});
  CHECK(texts_in(json{{"key", "a"}}).empty());
  CHECK(texts_in(json("a")).empty());
  CHECK(texts_in(json()).empty());
}

TEST_CASE("text_or_json() returns text unchanged, and every other value as JSON") {
  CHECK(text_or_json("a b") == "a b");
  CHECK(text_or_json(json{{"a", {1, true}}}) == R"({"a":[1,true]})");
  CHECK(text_or_json(nullptr) == "null");
}
