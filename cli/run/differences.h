// What sets runs of one experiment's name apart. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/run/status.h"

namespace mlk {

// By run: the keys of its experiment of which the value is not the same in all listed runs of its name, as
// "train.optimizer.lr=0.1 workers.count=4"; empty for the only run of a name. The first few of many keys.
std::map<std::string, std::string> differences_of(const std::vector<RunStatus>& runs);

}  // namespace mlk
