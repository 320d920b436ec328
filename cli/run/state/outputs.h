// Finds the files that a program has written into the folders of `outputs:`. Pure.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/run/state/volume_folder.h"

namespace mlk {

// The folder of all outputs of the run, with a folder for each rank, or for each trial of a sweep. nullopt if
// the outputs do not outlive the pods, or if the owner was read as metadata only.
std::optional<VolumeFolder> outputs_of(const nlohmann::json& owner);

// The text about outputs in the status of a run; empty if there is nothing to say. `is_over`: the run has
// ended.
std::string outputs_text(const std::optional<VolumeFolder>& outputs, bool is_over);

}  // namespace mlk
