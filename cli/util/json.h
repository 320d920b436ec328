// Parses JSON from outside: from a server, a file, a program. Nothing else in cli/ parses JSON, and a test
// checks that. nlohmann's functions that copy, compare, print and destroy a value recurse, so JSON that is
// nested too deeply must never become a value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/error.h"

namespace mlk {

// Objects of Kubernetes have about 20 levels. A value needs up to 64 bytes of memory.
struct JsonBounds {
  std::size_t depth = 200;
  std::size_t values = 8'000'000;
};

// "nested deeper than 200 levels" or "more than 8000000 values"; empty when the text is within its bounds.
std::string over_bounds(std::string_view text, const JsonBounds& bounds = {});

// The text is not JSON.
class NotJson : public Error {
 public:
  NotJson(const std::string& name, std::size_t at)
      : Error(ExitCode::failure, name + " is not JSON: byte " + std::to_string(at)), byte(at) {}

  // The last byte that was read, counted from 1. If a number is out of range: the last byte of the text.
  const std::size_t byte;
};

// Throws NotJson if the text is not JSON. Throws Error{failure} beyond the bounds: "NAME: nested deeper than
// 200 levels", "NAME: more than 8000000 values". No error repeats the text, which may be a secret.
nlohmann::json parse_json(std::string_view text, const std::string& name, const JsonBounds& bounds = {});

// Like parse_json(), but returns null instead of throwing, for callers that treat unreadable text as missing.
nlohmann::json json_or_null(std::string_view text, const JsonBounds& bounds = {});

// The text of a value for people and programs. Never throws: bytes that are not UTF-8 become U+FFFD.
// Characters that control a terminal are written as \uXXXX. `indent`: the number of blanks for each level;
// -1 writes everything on one line.
std::string json_text(const nlohmann::json& value, int indent = -1);

}  // namespace mlk
