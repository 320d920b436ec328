// Gives rendered objects to their owner, whose uid is known only when it has been created. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// The ownerReferences of objects that are deleted with the ConfigMap of that name and uid.
nlohmann::json owner_references(const std::string& name, const std::string& uid);

// Sets the ownerReferences, whatever a patch says: an object that does not belong to the owner would outlive
// the run. The run's folder for checkpoints gets the uid in its name, wherever a container has its path.
void own(nlohmann::json& object, const std::string& run, const std::string& uid);
void own(std::vector<nlohmann::json>& objects, const std::string& run, const std::string& uid);

}  // namespace mlk
