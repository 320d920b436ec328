// Gives rendered objects to their owner. Kubernetes chooses the owner's uid when it creates the owner. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// The ownerReferences of objects that are deleted with the ConfigMap of that name and uid.
nlohmann::json owner_references(const std::string& name, const std::string& uid);

// Sets the ownerReferences, even if a patch has set others, because an object without the owner would outlive
// the run. Adds the uid to the name of the run's folder for checkpoints in all variables of containers.
void own(nlohmann::json& object, const std::string& run, const std::string& uid);
void own(std::vector<nlohmann::json>& objects, const std::string& run, const std::string& uid);

}  // namespace mlk
