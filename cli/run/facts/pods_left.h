// Pods that have not ended although their Job is gone. After `kubectl delete job --cascade=orphan` such pods
// have no owner: neither a Job nor the garbage collector ends them, so they continue to train. Other pods of
// a gone Job are being garbage collected and are in their grace period. A second training must not start
// beside such a pod, so end_pods_left.h ends the pods first. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/run/facts/facts.h"
#include "cli/run/facts/run_objects.h"

namespace mlk {

// The pods that have not ended although their Job is gone, as pointers into `facts`. A pod on a lost node is
// included, since mlk cannot know whether the pod runs.
std::vector<const PodFacts*> pods_left(const Facts& facts);

// The names of the gone Jobs whose pods have not ended.
std::set<std::string> jobs_with_pods_left(const RunObjects& run);

}  // namespace mlk
