// Reads fields that may be missing, without copies.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace mlk::local {

// The field, or null, which has nothing to iterate over. Returns a reference, so `for (... : field(o,
// "labels").items())` is safe; with `o.value("labels", json::object()).items()` the object would be destroyed
// before the loop begins.
inline const nlohmann::json& field(const nlohmann::json& object, const char* name) {
  static const nlohmann::json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(name);
  return found == object.end() ? nothing : *found;
}

// The text of a value; empty if it is not text.
inline const std::string& text_in(const nlohmann::json& value) {
  static const std::string none;
  return value.is_string() ? value.get_ref<const std::string&>() : none;
}

// The text of the field; empty if it is missing.
inline const std::string& text_field(const nlohmann::json& object, const char* name) {
  return text_in(field(object, name));
}

}  // namespace mlk::local
