#include "cli/kube/objects.h"

#include <initializer_list>

#include "cli/util/json_path.h"

namespace mlk::kube {
namespace {

std::string entry_of(const json& object, const char* map, const std::string& key) {
  return text_of(object, {"metadata", map, key.c_str()});
}

}  // namespace

std::string name_of(const json& object) { return text_of(object, {"metadata", "name"}); }
std::string uid_of(const json& object) { return text_of(object, {"metadata", "uid"}); }

void repair(json& object) {
  const auto keep_objects = [](json& parent, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const auto found = parent.find(name);
      if (found != parent.end() && !found->is_object()) parent.erase(found);
    }
  };
  if (!object.is_object()) object = json::object();
  keep_objects(object, {"metadata", "spec", "status", "data"});
  if (!object.contains("metadata")) object["metadata"] = json::object();
  keep_objects(object["metadata"], {"labels", "annotations"});
  const auto owners = object["metadata"].find("ownerReferences");
  if (owners != object["metadata"].end() && !owners->is_array()) object["metadata"].erase(owners);
}

std::string label_of(const json& object, const std::string& key) { return entry_of(object, "labels", key); }
std::string annotation_of(const json& object, const std::string& key) {
  return entry_of(object, "annotations", key);
}

const json* condition_of(const json& object, std::string_view type, std::string_view wanted) {
  for (const json& condition : at_path(object, {"status", "conditions"})) {
    if (text_of(condition, {"type"}) == type && text_of(condition, {"status"}) == wanted) return &condition;
  }
  return nullptr;
}

}  // namespace mlk::kube
