// The garbage collector: what belongs to an object that is gone goes as well; so does what is in a namespace
// that goes, and pods that have ended when they become too many.
#pragma once

#include <cstddef>

#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

void collect_garbage(Store& store, Time now);

// Of pods that have ended at most so many stay, those that were made last; a node of Kubernetes keeps 12500.
// A pod that has finalizers does not count and stays: its Job has not counted it yet.
inline constexpr std::size_t most_finished_pods = 2000;
void limit_finished_pods(Store& store, std::size_t most);

}  // namespace mlk::local
