// Lists of objects, and the few fields that every object has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk::kube {

using json = nlohmann::json;

struct ListResult {
  std::vector<json> items;
  std::string resource_version;
};

std::string name_of(const json& object);
std::string uid_of(const json& object);
// Makes an object of a server safe to read. A value that is not an object becomes an empty object. The common
// parts (spec, status, data, and metadata with labels, annotations and ownerReferences) are removed if they
// have the wrong type. Other functions read deeper fields, and treat a wrong type as a missing field.
void repair(json& object);
std::string label_of(const json& object, const std::string& key);
std::string annotation_of(const json& object, const std::string& key);
// Returns a pointer into the object: the condition of that type with the wanted status; nullptr if there is
// none.
const json* condition_of(const json& object, std::string_view type, std::string_view wanted = "True");

}  // namespace mlk::kube
