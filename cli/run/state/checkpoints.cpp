#include "cli/run/state/checkpoints.h"

#include <fmt/format.h>

#include "cli/kube/objects.h"
#include "cli/render/pod.h"
#include "cli/run/facts/labels.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {

using json = nlohmann::json;

std::string checkpoint_folder_of(const json& owner) {
  const std::string folder = kube::annotation_of(owner, annotations::checkpoints);
  return is_label(folder) ? folder : checkpoint_folder(kube::name_of(owner), kube::uid_of(owner));
}

std::optional<CheckpointPlace> checkpoint_place(const json& owner, const json& result) {
  const json experiment = json_or_null(text_of(owner, {"data", "experiment"}));
  const json& volume = at_path(experiment, {"checkpoint", "volume"});
  if (!volume.is_object() || volume.empty() || volume.contains("emptyDir")) return std::nullopt;
  CheckpointPlace place{
      {.volume = volume, .path = checkpoint_folder_of(owner), .volume_name = checkpoint_volume}};
  // A user's program may write any value into its result, so a value that is not a step counts as missing.
  const std::int64_t step = count_of(result, {"checkpoint"}, -1);
  if (step >= 0 && at_path(experiment, {"train"}).is_object()) {
    place.step = step;
    place.path += fmt::format("/step-{:012}", step);
  }
  return place;
}

std::string unsaved_text(const json& result) {
  const std::int64_t since = count_of(result, {"unsaved"}, -1);
  if (since < 0) return "";
  const bool any = count_of(result, {"checkpoint"}, -1) >= 0;
  const std::string reason = printable(text_of(result, {"unsaved_reason"}));
  return (any ? fmt::format("none since step {}", since) : "none yet") +
         (reason.empty() ? "" : ": " + reason);
}

std::string checkpoint_text(const std::string& newest, const std::optional<CheckpointPlace>& place,
                            bool is_over) {
  if (!place) return newest;
  const std::string where = describe(*place);
  if (!newest.empty()) return newest + " in " + where;
  if (place->has_files == true) return "in " + where;
  if (!is_over) return "none yet; its folder will be " + where;
  return place->has_files ? "" : "none reported; what the program has saved is in " + where;
}

json to_json(const std::optional<CheckpointPlace>& place) {
  if (!place) return nullptr;
  json out = to_json(static_cast<const VolumeFolder&>(*place));
  out["step"] = place->step ? json(*place->step) : json();
  return out;
}

}  // namespace mlk
