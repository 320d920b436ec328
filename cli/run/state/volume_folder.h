// A folder of a run in one of its volumes. Pure.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace mlk {

struct VolumeFolder {
  nlohmann::json volume;            // as in the experiment file: {"pvc": "checkpoints"}
  std::string path;                 // in the volume
  std::string volume_name;          // of the volume in the pods
  std::string folder{};             // `path` on this machine, if the volume is here; else empty
  std::optional<bool> has_files{};  // whether the folder has files; nullopt: not checked
};

// "claim checkpoints, folder digits-abcde-1234abcd/step-000000003000", or the folder on this machine.
std::string describe(const VolumeFolder& place);

nlohmann::json to_json(const VolumeFolder& place);

}  // namespace mlk
