// What the owner of a run or sweep says of it. An owner may have been read as metadata only. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// Whether this ConfigMap is the owner of a run or sweep, and not one of its other ConfigMaps.
bool is_owner(const nlohmann::json& config_map);

// Whether the owner belongs to a sweep.
bool is_sweep(const nlohmann::json& owner);

// The label that the objects of a run or sweep have in common; its value is the owner's name.
std::string label_of_owner(const nlohmann::json& owner);

// Whether it belongs to a run that is a trial of a sweep.
bool is_trial(const nlohmann::json& owner);

// Whether a Job or pod is the driver of a detached sweep. A role of a trial may have the same name, but its
// run is not the sweep.
bool is_driver(const nlohmann::json& object);

// The roles in the run's owner, with their counts: {"worker": 5}. Empty if it names none.
std::map<std::string, int> roles_of(const nlohmann::json& owner);

// The commit of git from which the code of a run came, of what its owner keeps of the code; with "-dirty"
// behind it if the folder had changes. Empty if that is not known.
std::string commit_of(const std::string& source);

// The steps of the whole run, in an annotation; 0 if it does not say.
long steps_of(const nlohmann::json& owner);

// The tags that the experiment's author gave the run.
std::vector<std::string> tags_of(const nlohmann::json& owner);

}  // namespace mlk
