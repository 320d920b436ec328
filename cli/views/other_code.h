// A sweep that would be new only because something in the folder of its code has changed.
#pragma once

#include "cli/kube/client.h"
#include "sweeps/search/definition.h"

namespace mlk {

struct Session;

// Says so, and in which files, where a sweep is there already that differs in nothing else. Call before the
// sweep is started.
void tell_of_other_code(kube::Client& client, const sweeps::Definition& sweep, Session& session);

}  // namespace mlk
