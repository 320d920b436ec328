// Objects of a run that have lost their owner, since somebody deleted it with --cascade=orphan: the garbage
// collector does not know them, and they go on for good.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/kube/resource.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

struct Ownerless {
  const kube::Resource* resource;
  nlohmann::json object;  // only its metadata
};

// Pods that a Job of this run, or of this sweep, has left. Empty if the user may not list them. Throws
// ApiError.
std::vector<Ownerless> find_ownerless_pods(kube::Client& client, const std::string& name_space,
                                           const nlohmann::json& owner);

// All that is left of a run or a sweep whose own owner was deleted so; what is being deleted is left out.
// Empty for a text that is no name, and if the user may not list Jobs or pods. Throws ApiError.
std::vector<Ownerless> find_ownerless(kube::Client& client, const std::string& name_space,
                                      const std::string& run);

}  // namespace mlk
