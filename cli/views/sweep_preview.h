// The output of mlk sweep --dry-run: the points, the resources that a trial needs, and the number of trials
// for which there is room now.
#pragma once

#include <optional>

#include "sweeps/start/start.h"

namespace mlk {

struct Session;

struct PreviewOptions {
  std::optional<double> trial_minutes;  // minutes for a trial; empty: the mean of the succeeded trials
  bool as_json = false;
};

// Without a client, the preview has no facts about the cluster or about existing trials. Throws
// Error{usage} for a point that cannot be run, and ApiError if a request fails.
void print_preview(Session& session, kube::Client* client, const sweeps::StartRequest& request,
                   const PreviewOptions& options);

}  // namespace mlk
