// Which container of a pod is at fault, and which one keeps it. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/run/facts/facts.h"

namespace mlk {

// The container that keeps main from starting; nullptr if that is main itself, or if main has started.
const Container* holding_up(const PodFacts& pod);

// The container whose end is the reason for the end of the pod, or for which main does not start, if that is
// not main: an init container that fails, or one beside a main that ended well. The codes of sidecars do not
// count in the end of a pod. nullptr also for pods that ended for a reason of the node's or the cluster's.
const Container* at_fault(const PodFacts& pod);

// The containers for which a pod still waits whose program has ended.
std::vector<std::string> waited_for(const PodFacts& pod);

// Whether a pod that was to be deleted had failed before, as far as times in whole seconds can tell.
bool failed_by_itself(const PodFacts& pod);

}  // namespace mlk
