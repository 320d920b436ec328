// What sets runs of one experiment's name apart. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/status.h"

namespace mlk {

// The values of an experiment by their paths ("train.optimizer.lr"): maps are gone into; lists and scalars
// are values, and so is what lies deeper than an experiment file can. Empty for anything but a map.
std::map<std::string, nlohmann::json> values_by_path(const nlohmann::json& experiment);

// By run: the keys of its experiment of which the value is not the same in all listed runs of its name, as
// "train.optimizer.lr=0.1 workers.count=4"; empty for the only run of a name. The first few of many keys.
std::map<std::string, std::string> differences_of(const std::vector<RunStatus>& runs);

}  // namespace mlk
