// Reads fields of JSON that may be missing or of another type than expected. Pure. The functions with a path
// throw nothing.
//
//   text_of(pod, {"status", "phase"})     "" if there is no such text
//   for (const json& item : at_path(pod, {"spec", "containers"}))   no iteration if there is no such value
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk {

// Keys from the outermost object inwards; empty: the value itself.
using JsonPath = std::initializer_list<const char*>;

// Returns the value at this path, as a reference into `object`. If there is no such value, returns a JSON
// null; a loop over a null does nothing.
const nlohmann::json& at_path(const nlohmann::json& object, JsonPath path);

// Returns the text at this path, as a reference into `object`. Returns an empty text if the value is no text.
const std::string& text_of(const nlohmann::json& object, JsonPath path);

// The value, which must be a whole number; a number that is too large becomes the largest std::int64_t.
std::int64_t whole_number(const nlohmann::json& value);

// The whole number at this path, limited to the range from minus a billion to a billion. `otherwise` if there
// is no whole number.
int number_of(const nlohmann::json& object, JsonPath path, int otherwise);

// The whole number at this path, for example a number of steps. The number may be larger than an int.
// `otherwise` if there is no whole number.
std::int64_t count_of(const nlohmann::json& object, JsonPath path, std::int64_t otherwise);

// The time at this path, in the format of Kubernetes (RFC 3339). nullopt if there is no time.
std::optional<Time> time_of(const nlohmann::json& object, JsonPath path);

// The texts in a list, without its other values. Empty if the value is no list.
std::vector<std::string> texts_in(const nlohmann::json& list);

// Returns text unchanged, and any other value as JSON. Throws nlohmann's error if the value contains text
// that is not UTF-8.
std::string text_or_json(const nlohmann::json& value);

}  // namespace mlk
