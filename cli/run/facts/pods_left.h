// Pods that have not ended although their Job is not there any more. After `kubectl delete job
// --cascade=orphan` they have no owner: neither a Job nor the garbage collector ends them, and they train on
// for good. Others are being collected, and have their grace. None of them may have a second training beside
// it: end_pods_left.h ends them first. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/facts/facts.h"
#include "cli/run/facts/run_objects.h"

namespace mlk {

// They point into `facts`. One on a lost node is among them: nobody knows whether it runs.
std::vector<const PodFacts*> pods_left(const Facts& facts);

// The names of the Jobs that these pods have lost.
std::set<std::string> jobs_with_pods_left(const RunObjects& run);

}  // namespace mlk
