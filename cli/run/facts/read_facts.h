// Reads the objects of a run into facts. Pure.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/facts/facts.h"
#include "cli/run/facts/run_objects.h"

namespace mlk {

// If the owner names the deciding Job and this Job is gone, no other Job decides the end of the run. `now`
// decides which pods are past their grace period. With the default value, no pod is past it.
Facts read_facts(const RunObjects& objects, Time now = {});
Facts read_facts(const std::vector<nlohmann::json>& jobs, const std::vector<nlohmann::json>& pods,
                 const std::vector<nlohmann::json>& events = {}, Time now = {});

}  // namespace mlk
