#include "cli/render/outputs.h"

#include "cli/render/helper.h"
#include "cli/render/mounts.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {

using nlohmann::json;

std::optional<OutputsPlace> outputs_place(const json& effective, const std::string& usual_claim) {
  if (!effective.contains("outputs")) return std::nullopt;
  const json& to = at_path(effective, {"outputs", "to"});
  const json& of_checkpoints = at_path(effective, {"checkpoint", "volume"});
  const bool lasts = of_checkpoints.is_object() && !of_checkpoints.contains("emptyDir");
  if (lasts && (to.is_null() || to == of_checkpoints))
    return OutputsPlace{of_checkpoints, checkpoint_mount, true};
  if (to.is_object()) return OutputsPlace{to, outputs_mount};
  if (usual_claim.empty()) return std::nullopt;
  return OutputsPlace{{{"pvc", usual_claim}}, outputs_mount};
}

std::string outputs_folder_of_rank(const std::string& role, const std::string& rank) {
  return role == "worker" ? rank : role + "-" + rank;
}

std::vector<std::string> outputs_words(const json& effective, const std::string& usual_claim) {
  if (!outputs_place(effective, usual_claim)) return {};
  std::vector<std::string> out{helper_path(pod_helper), "start"};
  if (effective.contains("workdir") && !effective.contains("code")) out.emplace_back("--own-folder");
  for (const json& path : effective["outputs"]["path"]) out.push_back(path.get<std::string>());
  out.emplace_back("--");
  return out;
}

std::string outputs_advice(const json& effective, const std::string& usual_claim) {
  if (!effective.contains("run")) return "";
  if (!effective.contains("outputs"))
    return "what the program writes into its folder ends with its pod; this keeps it: outputs: out";
  std::vector<std::string> paths;
  for (const json& path : effective["outputs"]["path"]) paths.push_back(path.get<std::string>());
  const std::string folders = join(paths, ", ");
  const std::optional<OutputsPlace> place = outputs_place(effective, usual_claim);
  if (!place)
    return "what the program writes into " + folders +
           " ends with its pod, since no volume is named for it: --set outputs.to.pvc=CLAIM, or export "
           "MLK_OUTPUTS_CLAIM=CLAIM";
  const std::string claim = text_of(place->volume, {"pvc"});
  return "what the program writes into " + folders + " stays" + (claim.empty() ? "" : ", in claim " + claim);
}

}  // namespace mlk
