// Checks the objects of a run that templates and patches have made: they must be Kubernetes objects that mlk
// can find again. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// `source` is the template or patch that changed the object last. The functions with `source` throw an
// Error{usage} that begins with it.

// Requires that the object is a map, and that kind, apiVersion and metadata.name are text. If the object has
// labels or annotations, these must be maps.
void check_head(const nlohmann::json& object, const std::string& source);

// Requires the ConfigMap `run`, because mlk finds the owner of the other objects by this name.
void check_owner(const nlohmann::json& owner, const std::string& run, const std::string& source);

// Requires that the label mlk.dev/run of the pod is `run`.
void check_pod(const nlohmann::json& pod, const std::string& run, const std::string& source);

// Requires what check_head() requires, and that the label mlk.dev/run of the Job and of its pod template is
// `run`.
void check_job(const nlohmann::json& job, const std::string& run, const std::string& source);

// Throws Error{usage} if two objects have the same kind and name, because mlk would confuse the two
// objects.
void check_distinct(const nlohmann::json& owner, const std::vector<nlohmann::json>& objects);

}  // namespace mlk
