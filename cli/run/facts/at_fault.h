// Finds the container of a pod that is at fault, and the containers that keep the pod from ending. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/run/facts/facts.h"

namespace mlk {

// The container that keeps main from starting; nullptr if no container does this, or if main has started.
const Container* holding_up(const PodFacts& pod);

// The container other than main whose end is the reason why the pod ended or why main does not start: an init
// container that fails, a sidecar that fails before main starts, or a container that fails beside a main that
// ended well. The exit code of a sidecar does not affect the end of a pod. nullptr also for pods that the
// node or the cluster has ended.
const Container* at_fault(const PodFacts& pod);

// The containers for which a pod still waits after its program has ended.
std::vector<std::string> waited_for(const PodFacts& pod);

// Whether a pod had failed before its deletion was requested, as far as times in whole seconds can show.
bool failed_by_itself(const PodFacts& pod);

}  // namespace mlk
