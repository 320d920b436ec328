// Detects a sweep that would be new only because a file in the folder of its code has changed.
#pragma once

#include "cli/kube/client.h"
#include "sweeps/search/definition.h"

namespace mlk {

struct Session;

// If there is a sweep that differs from `sweep` only in its code, reports that sweep and the files that
// differ. Call before `sweep` is started.
void report_other_code(kube::Client& client, const sweeps::Definition& sweep, Session& session);

}  // namespace mlk
