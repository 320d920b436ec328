#include "cli/kube/objects.h"

#include <algorithm>
#include <cstdint>

namespace mlk::kube {
namespace {

// Keys contain slashes and dots, which a JSON pointer would misread.
std::string entry_of(const json& object, const char* map, const std::string& key) {
  if (!object.is_object()) return "";
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return "";
  const auto entries = metadata->find(map);
  if (entries == metadata->end() || !entries->is_object()) return "";
  const auto entry = entries->find(key);
  return entry != entries->end() && entry->is_string() ? entry->get<std::string>() : "";
}

std::string metadata_of(const json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return "";
  const auto value = metadata->find(key);
  return value != metadata->end() && value->is_string() ? value->get<std::string>() : "";
}

}  // namespace

std::string name_of(const json& object) { return metadata_of(object, "name"); }
std::string uid_of(const json& object) { return metadata_of(object, "uid"); }

int number_at(const json& object, const json::json_pointer& path, int otherwise) {
  if (!object.contains(path)) return otherwise;
  const json& value = object.at(path);
  constexpr int bound = 1'000'000'000;
  if (value.is_number_unsigned()) {
    return static_cast<int>(std::min<std::uint64_t>(value.get<std::uint64_t>(), bound));
  }
  if (!value.is_number_integer()) return otherwise;
  return static_cast<int>(std::max<std::int64_t>(value.get<std::int64_t>(), -bound));
}

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

}  // namespace mlk::kube
