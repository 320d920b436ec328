// Lists of objects, and the few fields that every object has.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk::kube {

using json = nlohmann::json;

struct ListResult {
  std::vector<json> items;
  std::string resource_version;
};

inline std::string text_at(const json& object, const json::json_pointer& path) {
  if (!object.contains(path)) return "";
  const json& value = object.at(path);
  return value.is_string() ? value.get<std::string>() : "";
}
inline std::string name_of(const json& object) {
  return text_at(object, json::json_pointer("/metadata/name"));
}
inline std::string uid_of(const json& object) { return text_at(object, json::json_pointer("/metadata/uid")); }
std::string label_of(const json& object, const std::string& key);
std::string annotation_of(const json& object, const std::string& key);

}  // namespace mlk::kube
