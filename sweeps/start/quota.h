// Finds quotas of a namespace that leave no room for any trial.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk::kube {
class Client;
}

namespace mlk::sweeps {

// "the quota 'q' allows no pods": names the first resource that every sweep needs and that a ResourceQuota
// forbids completely. Empty if no quota forbids such a resource. Pure.
std::string what_quota_forbids(const std::vector<nlohmann::json>& quotas);

// Throws Error{cannot_start} if a quota forbids every trial in the namespace. Call this function before
// creating any object. Does nothing if the user may not read quotas: the cluster then refuses the objects.
void require_quota(kube::Client& client, const std::string& name_space);

}  // namespace mlk::sweeps
