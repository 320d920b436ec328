#include "cli/kube/objects.h"

namespace mlk::kube {
namespace {

// Keys hold slashes and dots, which a JSON pointer would read as its own.
std::string entry_of(const json& object, const char* map, const std::string& key) {
  if (!object.is_object()) return "";
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return "";
  const auto entries = metadata->find(map);
  if (entries == metadata->end() || !entries->is_object()) return "";
  const auto entry = entries->find(key);
  return entry != entries->end() && entry->is_string() ? entry->get<std::string>() : "";
}

}  // namespace

std::string label_of(const json& object, const std::string& key) { return entry_of(object, "labels", key); }
std::string annotation_of(const json& object, const std::string& key) {
  return entry_of(object, "annotations", key);
}

}  // namespace mlk::kube
