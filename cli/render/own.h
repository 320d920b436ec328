// Sets the owner of rendered objects. This is a step of its own, because the owner has a uid only after
// Kubernetes has created it. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// The ownerReferences of objects that are deleted together with the ConfigMap of this name and uid.
nlohmann::json owner_references(const std::string& name, const std::string& uid);

// Replaces the ownerReferences, even those from a patch, because an object without this owner would outlive
// the run. In MLK_CHECKPOINTS, MLK_TENSORBOARD and MLK_OUTPUTS of all containers, adds the uid to the name of
// the run's folder in its volumes, or names `folder` instead, the folder of an earlier run.
void own(nlohmann::json& object, const std::string& run, const std::string& uid,
         const std::string& folder = "");
void own(std::vector<nlohmann::json>& objects, const std::string& run, const std::string& uid,
         const std::string& folder = "");

}  // namespace mlk
