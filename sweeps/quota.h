// The quotas of a namespace, as far as they leave no room for any trial at all.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk::kube {
class Client;
}

namespace mlk::sweeps {

// "the quota 'q' allows no pods": what one of the ResourceQuotas forbids altogether of what every sweep
// consists of; empty when there is no such. Pure.
std::string what_quota_forbids(const std::vector<nlohmann::json>& quotas);

// Throws Error{cannot_start} for a namespace in which no trial can ever run, before anything is created. Who
// may not read quotas is let through: the cluster then refuses by itself.
void require_quota(kube::Client& client, const std::string& name_space);

}  // namespace mlk::sweeps
