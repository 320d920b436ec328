// Checks the objects of a run after templates and patches: the objects must be Kubernetes objects that mlk
// can find again. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// The functions with `source` throw an Error{usage} that begins with `source`: the template or patch that
// changed the object last.

// Requires a map with text in kind, apiVersion and metadata.name. Labels and annotations must be maps if the
// object has them.
void check_head(const nlohmann::json& object, const std::string& source);

// Requires the ConfigMap `run`, because mlk finds the owner of the other objects by this name.
void check_owner(const nlohmann::json& owner, const std::string& run, const std::string& source);

// Requires a map with `run` in the label mlk.dev/run.
void check_pod(const nlohmann::json& pod, const std::string& run, const std::string& source);

// Requires the head of an object and the label mlk.dev/run with `run`, and this label in the pod template
// too.
void check_job(const nlohmann::json& job, const std::string& run, const std::string& source);

// Throws Error{usage} if two objects have the same kind and name, because mlk would confuse the two
// objects.
void check_distinct(const nlohmann::json& owner, const std::vector<nlohmann::json>& objects);

}  // namespace mlk
