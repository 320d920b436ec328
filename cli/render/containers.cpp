#include "cli/render/containers.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace mlk {

using nlohmann::json;

json* main_container(json& spec) {
  const auto containers = spec.find("containers");
  if (containers == spec.end()) return nullptr;
  const auto found = std::find_if(containers->begin(), containers->end(), [](const json& container) {
    return container.is_object() && container.value("name", json()) == "main";
  });
  return found == containers->end() ? nullptr : &*found;
}

void capture_last_words(json& pod) {
  const auto spec = pod.find("spec");
  if (spec == pod.end() || !spec->is_object()) return;
  for (const char* list : {"containers", "initContainers"}) {
    const auto containers = spec->find(list);
    if (containers == spec->end() || !containers->is_array()) continue;
    for (json& container : *containers) {
      if (!container.is_object() || container.value("name", json()) == "main") continue;
      if (!container.contains("terminationMessagePolicy"))
        container["terminationMessagePolicy"] = "FallbackToLogsOnError";
    }
  }
}

}  // namespace mlk
