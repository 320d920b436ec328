#include "cli/run/state/outputs.h"

#include "cli/render/outputs.h"
#include "cli/render/pod.h"
#include "cli/run/state/checkpoints.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"

namespace mlk {

using json = nlohmann::json;

std::optional<VolumeFolder> outputs_of(const json& owner) {
  const json volume = json_or_null(text_of(owner, {"data", "outputs"}));
  if (!volume.is_object() || volume.empty()) return std::nullopt;
  const json experiment = json_or_null(text_of(owner, {"data", "experiment"}));
  const bool shares = at_path(experiment, {"checkpoint", "volume"}) == volume;
  return VolumeFolder{.volume = volume,
                      .path = checkpoint_folder_of(owner) + "/" + outputs_folder,
                      .volume_name = shares ? checkpoint_volume : outputs_volume};
}

std::string outputs_text(const std::optional<VolumeFolder>& outputs, bool is_over) {
  if (!outputs) return "";
  const std::string where = describe(*outputs);
  if (!outputs->has_files) return "what is there is in " + where;
  if (*outputs->has_files) return "in " + where;
  return is_over ? "none" : "none yet; their folder will be " + where;
}

}  // namespace mlk
