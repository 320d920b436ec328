#include "cli/render/own.h"

#include <nlohmann/json.hpp>

#include "cli/render/outputs.h"
#include "cli/render/pod.h"
#include "cli/util/json_path.h"

namespace mlk {
namespace {

using nlohmann::json;

bool names_folder_of_run(const std::string& variable) {
  return variable == "MLK_CHECKPOINTS" || variable == "MLK_TENSORBOARD" || variable == "MLK_OUTPUTS";
}

// Changes the variables of all containers at any depth of `value`, because a job type may have pods outside
// of Jobs.
void move_folders(json& value, const std::string& from, const std::string& to) {
  if (!value.is_structured()) return;
  for (json& each : value) move_folders(each, from, to);
  if (!value.is_object() || !names_folder_of_run(text_of(value, {"name"}))) return;
  const std::string path = text_of(value, {"value"});
  if (path == from || path.starts_with(from + "/")) value["value"] = to + path.substr(from.size());
}

}  // namespace

json owner_references(const std::string& name, const std::string& uid) {
  return json::array({{{"apiVersion", "v1"},
                       {"kind", "ConfigMap"},
                       {"name", name},
                       {"uid", uid},
                       {"blockOwnerDeletion", false}}});
}

void own(json& object, const std::string& run, const std::string& uid, const std::string& folder) {
  object["metadata"]["ownerReferences"] = owner_references(run, uid);
  for (const char* mount : {checkpoint_mount, outputs_mount})
    move_folders(object, run_path(mount, run, ""),
                 folder.empty() ? run_path(mount, run, uid) : run_path(mount, folder, ""));
}

void own(std::vector<json>& objects, const std::string& run, const std::string& uid,
         const std::string& folder) {
  for (json& object : objects) own(object, run, uid, folder);
}

}  // namespace mlk
