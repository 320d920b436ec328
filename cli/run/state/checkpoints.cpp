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
  CheckpointPlace place{volume, checkpoint_folder_of(owner), {}, ""};
  // A user's program may write any value into its result, so a value that is not a step counts as missing.
  const std::int64_t step = count_of(result, {"checkpoint"}, -1);
  if (step >= 0 && at_path(experiment, {"train"}).is_object()) {
    place.step = step;
    place.path += fmt::format("/step-{:012}", step);
  }
  return place;
}

std::string describe(const CheckpointPlace& place) {
  if (!place.folder.empty()) return place.folder;
  const json& volume = place.volume;
  if (volume.contains("pvc")) return "claim " + text_of(volume, {"pvc"}) + ", folder " + place.path;
  if (volume.contains("hostPath")) return text_of(volume, {"hostPath"}) + "/" + place.path + " of the nodes";
  if (volume.contains("nfs")) {
    return text_of(volume, {"nfs", "server"}) + ":" + text_of(volume, {"nfs", "path"}) + ", folder " +
           place.path;
  }
  return "its volume, folder " + place.path;
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
  json out = {{"volume", place->volume}, {"path", place->path}, {"step", nullptr}, {"folder", nullptr}};
  if (place->step) out["step"] = *place->step;
  if (!place->folder.empty()) out["folder"] = place->folder;
  return out;
}

}  // namespace mlk
