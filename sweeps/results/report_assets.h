// The files of sweeps/results/report/, compiled into the binary. cmake/embed.cmake generates the table.
#pragma once

#include <vector>

#include "cli/render/embedded.h"

namespace mlk::sweeps {

const std::vector<EmbeddedFile>& report_assets();

}  // namespace mlk::sweeps
