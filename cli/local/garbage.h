// The garbage collector: deletes objects whose owner is gone, the contents of a namespace that is being
// deleted, and ended pods when there are too many.
#pragma once

#include <cstddef>

#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

void collect_garbage(Store& store, Time now);

// The greatest number of ended pods: the collector keeps the youngest ones. Kubernetes keeps 12500. In
// addition, the collector keeps ended pods with finalizers, since the Jobs have not counted these pods yet.
inline constexpr std::size_t most_finished_pods = 2000;
void limit_finished_pods(Store& store, std::size_t most);

}  // namespace mlk::local
