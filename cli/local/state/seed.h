// The objects of a fresh cluster: the namespace "default", its service account, and the one node.
#pragma once

#include <string>

#include "cli/local/state/store.h"
#include "cli/util/time.h"

namespace mlk::local {

// Adds the objects that are missing. gpus: the number of GPUs of the node. The stored node may have another
// number, which is replaced.
void seed(Store& store, Time now, std::size_t gpus = 0);

void add_default_account(Store& store, const std::string& name_space, Time now);

}  // namespace mlk::local
