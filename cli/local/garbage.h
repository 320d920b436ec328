// The garbage collector: what belongs to an object that is gone goes as well; so does what is in a namespace
// that goes.
#pragma once

#include "cli/local/store.h"
#include "cli/util/time.h"

namespace mlk::local {

void collect_garbage(Store& store, Time now);

}  // namespace mlk::local
