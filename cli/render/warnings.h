// Warnings about a run. mlk renders the run in spite of the warnings. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/experiment/experiment.h"
#include "cli/render/pod.h"
#include "cli/render/render_inputs.h"

namespace mlk {

// Returns sentences such as "no checkpoint volume: if all pods are lost at once, training starts again at
// step 0".
std::vector<std::string> warnings_of(const Experiment& experiment, const FileContents& files,
                                     const RenderOptions& options, const std::vector<RoleInRun>& roles);

}  // namespace mlk
