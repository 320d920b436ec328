// Reading fields that may be missing, without copies.
#pragma once

#include <nlohmann/json.hpp>

namespace mlk::local {

// The field, or null: nothing to iterate over. A reference, so that `for (... : field(o, "labels").items())`
// is safe, which `o.value("labels", json::object()).items()` is not: there the object is gone before the loop
// begins.
inline const nlohmann::json& field(const nlohmann::json& object, const char* name) {
  static const nlohmann::json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(name);
  return found == object.end() ? nothing : *found;
}

}  // namespace mlk::local
