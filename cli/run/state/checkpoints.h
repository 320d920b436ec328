// Finds and describes the place of a run's checkpoints. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/run/state/volume_folder.h"

namespace mlk {

struct CheckpointPlace : VolumeFolder {  // of the newest known checkpoint, or else of the run
  std::optional<std::int64_t> step{};    // of that checkpoint
};

// The folder in the volume: the run's own, or that of the earlier run whose checkpoints the run continues.
std::string checkpoint_folder_of(const nlohmann::json& owner);

// Finds the place from the run's owner and its result. nullopt if checkpoints do not outlive the pods, or if
// the owner was read as metadata only.
std::optional<CheckpointPlace> checkpoint_place(const nlohmann::json& owner, const nlohmann::json& result);

// What the result says about checkpoints that could not be written: "none since step 120: No space left on
// device", "none yet: Read-only file system"; empty if the result says nothing about this.
std::string unsaved_text(const nlohmann::json& result);

// The text about checkpoints in the status of a run. `newest`: "step 3000", as the run has reported; empty if
// the run has reported no checkpoint. `is_over`: the run has ended.
std::string checkpoint_text(const std::string& newest, const std::optional<CheckpointPlace>& place,
                            bool is_over);

nlohmann::json to_json(const std::optional<CheckpointPlace>& place);

}  // namespace mlk
