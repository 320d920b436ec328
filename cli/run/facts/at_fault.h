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
// ended well. After the start of main, the exit code of a sidecar does not affect the end of the pod. nullptr
// if there is no such container, if the program itself has failed, or if the node or the cluster has ended
// the pod.
const Container* at_fault(const PodFacts& pod);

// The names of the containers for which a pod still waits after its program has ended.
std::vector<std::string> waited_for(const PodFacts& pod);

// Whether a pod that is being deleted had failed before it was asked to end (or in the same second), but was
// not ended by SIGTERM or SIGKILL.
bool failed_by_itself(const PodFacts& pod);

}  // namespace mlk
