// The output of mlk sweep --dry-run: the points, the resources that they need, and how many trials have room
// now.
#pragma once

#include <optional>

#include "sweeps/start/start.h"

namespace mlk {

struct Session;

struct PreviewOptions {
  std::optional<double> trial_minutes;  // how long a trial takes; empty: as long as the ended trials
  bool as_json = false;
};

// Without a client, the preview has no facts about the cluster and about trials that have ended. Throws
// Error{usage} for a point that cannot be run, and ApiError.
void print_preview(Session& session, kube::Client* client, const sweeps::StartRequest& request,
                   const PreviewOptions& options);

}  // namespace mlk
