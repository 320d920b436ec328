// The garbage collector: deletes objects whose owner is gone, the contents of a namespace that is being
// deleted, and ended pods when there are too many.
#pragma once

#include <cstddef>

#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

void collect_garbage(Store& store, Time now);

// The collector keeps at most so many ended pods, the youngest. Kubernetes keeps 12500. A pod with finalizers
// is kept and does not count, since its Job has not counted it yet.
inline constexpr std::size_t most_finished_pods = 2000;
void limit_finished_pods(Store& store, std::size_t most);

}  // namespace mlk::local
