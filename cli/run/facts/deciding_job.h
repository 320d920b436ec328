// Finds the Job of a run that decides the end of the run. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// Whether the object is a Job of Kubernetes itself: other API groups also have a kind Job (batch.volcano.sh).
bool is_job(const nlohmann::json& object);

// The value of annotations::created for a run of these objects: the name of the Job that decides its end.
// Empty if the objects do not show which Job decides.
std::string name_of_deciding_job(const std::vector<nlohmann::json>& objects);

}  // namespace mlk
