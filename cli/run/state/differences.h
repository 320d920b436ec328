// Finds the values in which runs with the same experiment name differ. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/state/status.h"

namespace mlk {

// The values of an experiment by their paths ("train.optimizer.lr"). The function descends into maps, as deep
// as an experiment file may be nested; anything else is a value. Empty if the argument is not a map.
std::map<std::string, nlohmann::json> values_by_path(const nlohmann::json& experiment);

// For each run: the keys of its experiment whose values differ among the runs with the same experiment name,
// as "train.optimizer.lr=0.1 workers.count=4". Empty for the only run of a name, and for a run whose
// experiment is not known, such as a sweep. Has at most the first six keys.
std::map<std::string, std::string> differences_of(const std::vector<RunStatus>& runs);

}  // namespace mlk
