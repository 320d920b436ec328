// The garbage collector: deletes objects whose owner is gone, the contents of a namespace that is being
// deleted, and ended pods when there are too many.
#pragma once

#include <cstddef>

#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

void collect_garbage(Store& store, Time now);

// The collector keeps only the youngest ended pods, at most so many. Kubernetes keeps 12500. It keeps ended
// pods with finalizers in addition, since their Jobs have not counted them yet.
inline constexpr std::size_t most_finished_pods = 2000;
void limit_finished_pods(Store& store, std::size_t most);

}  // namespace mlk::local
