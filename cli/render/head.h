// What the objects of a run must still be once templates and patches have had their say: objects of
// Kubernetes that mlk finds again. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// Each throws Error{usage} that begins with `source`: the template or patch that made it what it is.

// A map with text in kind, apiVersion and metadata.name, and maps for labels and annotations.
void check_head(const nlohmann::json& object, const std::string& source);

// The ConfigMap `run`: the owner of all others is looked for by that.
void check_owner(const nlohmann::json& owner, const std::string& run, const std::string& source);

// A map with `run` in the label mlk.dev/run.
void check_pod(const nlohmann::json& pod, const std::string& run, const std::string& source);

// Both, and so is its pod template.
void check_job(const nlohmann::json& job, const std::string& run, const std::string& source);

// Throws Error{usage} when two objects have one kind and name: the second would be taken for the first.
void check_distinct(const nlohmann::json& owner, const std::vector<nlohmann::json>& objects);

}  // namespace mlk
