#include "cli/render/devices.h"

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/render/containers.h"
#include "cli/util/json_path.h"

namespace mlk {

using nlohmann::json;

namespace {

constexpr char shared_memory[] = "/dev/shm";
constexpr char shared_memory_volume[] = "mlk-shm";

bool asks_for_devices(const json& container) {
  if (!at_path(container, {"resources", "claims"}).empty()) return true;
  for (const auto& [name, unused] : at_path(container, {"resources", "limits"}).items()) {
    if (name.find('/') != std::string::npos) return true;  // a device; CPUs and memory have no slash
  }
  return false;
}

// Adds the entry to the list if no entry of the list has the same value of `key`. Adds nothing if `list` is
// no list; the cluster refuses such a pod later. Returns whether the entry was added.
bool add_new(json& object, const char* list, const char* key, const json& entry) {
  json& entries = object[list];
  if (entries.is_null()) entries = json::array();
  const bool there = std::any_of(entries.begin(), entries.end(), [&](const json& other) {
    return other.is_object() && other.value(key, json()) == entry[key];
  });
  if (there || !entries.is_array()) return false;
  entries.push_back(entry);
  return true;
}

}  // namespace

void fit_to_devices(json& pod) {
  const auto spec = pod.find("spec");
  if (spec == pod.end() || !spec->is_object()) return;
  json* container = main_container(*spec);
  if (container == nullptr) return;
  if (!asks_for_devices(*container)) {
    add_new(*container, "env", "name", {{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "void"}});
  } else if (add_new(*container, "volumeMounts", "mountPath",
                     {{"name", shared_memory_volume}, {"mountPath", shared_memory}})) {
    add_new(*spec, "volumes", "name", {{"name", shared_memory_volume}, {"emptyDir", {{"medium", "Memory"}}}});
  }
}

}  // namespace mlk
