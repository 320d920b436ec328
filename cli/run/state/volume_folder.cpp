#include "cli/run/state/volume_folder.h"

#include "cli/util/json_path.h"

namespace mlk {

using json = nlohmann::json;

std::string describe(const VolumeFolder& place) {
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

json to_json(const VolumeFolder& place) {
  json out = {{"volume", place.volume}, {"path", place.path}, {"folder", nullptr}};
  if (!place.folder.empty()) out["folder"] = place.folder;
  return out;
}

}  // namespace mlk
