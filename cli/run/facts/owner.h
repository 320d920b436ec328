// Reads what the owner records about its run or sweep. An owner may have been read as metadata only. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// Whether this ConfigMap is the owner of a run or sweep, and not another ConfigMap of a run.
bool is_owner(const nlohmann::json& config_map);

// Whether the owner belongs to a sweep.
bool is_sweep(const nlohmann::json& owner);

// The label that the objects of a run or sweep have in common; its value is the owner's name.
std::string label_of_owner(const nlohmann::json& owner);

// Whether the owner belongs to a run that is a trial of a sweep.
bool is_trial(const nlohmann::json& owner);

// Whether a Job or pod is the driver of a detached sweep. A trial may have a role named driver too, but the
// Job of such a role belongs to the trial's run and not to the sweep.
bool is_driver(const nlohmann::json& object);

// The roles in the run's owner, with their counts: {"worker": 5}. Empty if the owner names no role.
std::map<std::string, int> roles_of(const nlohmann::json& owner);

// The git commit of a run's code, from `source`, which is the owner's record about the code. "-dirty" is
// appended if the folder had changes. Empty if the commit is not known.
std::string commit_of(const std::string& source);

// The steps of the whole run, from an annotation; 0 if the owner has no such annotation.
long steps_of(const nlohmann::json& owner);

// The tags that the experiment's author gave the run.
std::vector<std::string> tags_of(const nlohmann::json& owner);

}  // namespace mlk
