// Submits a run of the cluster again, from its record and not from an experiment file.
#pragma once

#include <string>

#include "cli/provide/submit.h"
#include "cli/run/change/stored_run.h"

namespace mlk {

// Submits the stored experiment with its files and its code as a new run, except if the newest run of exactly
// this experiment still continues. `checkpoints`: as in SubmitRequest. Warns if the templates of this machine
// make another run of it. Throws Error{not_found} if a file of the run is gone, and the errors of submit().
Submitted submit_stored(const StoredRun& stored, const Provided& provided, const std::string& checkpoints,
                        bool dry_run, const std::string& output, Session& session);

}  // namespace mlk
