// Reads fields of JSON that may be missing or of another type than expected. Pure; nothing here throws.
//
//   text_of(pod, {"status", "phase"})     "" if there is no such text
//   for (const json& item : at_path(pod, {"spec", "containers"}))   never if there is none
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk {

// Keys from the outermost object inwards; empty: the value itself.
using JsonPath = std::initializer_list<const char*>;

// The value at this path, which is a part of `object`. If there is no such value, a JSON null. A loop over a
// null does nothing.
const nlohmann::json& at_path(const nlohmann::json& object, JsonPath path);

// The text at this path, which is a part of `object`; empty if the value is not text.
const std::string& text_of(const nlohmann::json& object, JsonPath path);

// The value, which must be a whole number; a number that is too large becomes the largest std::int64_t.
std::int64_t whole_number(const nlohmann::json& value);

// The whole number at this path, limited to the range from minus a billion to a billion.
int number_of(const nlohmann::json& object, JsonPath path, int otherwise);

// The whole number at this path without the bounds of number_of(). For numbers of steps, which may exceed an
// int.
std::int64_t count_of(const nlohmann::json& object, JsonPath path, std::int64_t otherwise);

// A time as Kubernetes writes it (RFC 3339).
std::optional<Time> time_of(const nlohmann::json& object, JsonPath path);

// Returns text unchanged, and any other value as JSON. Throws nlohmann's error if the value contains text
// that is not UTF-8.
std::string text_or_json(const nlohmann::json& value);

}  // namespace mlk
