// Finds objects of a run that have lost their owner, since somebody deleted the owner with --cascade=orphan.
// The garbage collector does not delete such objects, so they stay for good.
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

// The pods that a deleted Job of this run or sweep has left. Empty if the user may not list them. Throws
// ApiError.
std::vector<Ownerless> find_ownerless_pods(kube::Client& client, const std::string& name_space,
                                           const nlohmann::json& owner);

// All objects of a run or a sweep that have lost their owner, except objects that are being deleted, and
// objects of kinds that the user may not list. Empty if `run` is not a valid name. Throws ApiError.
std::vector<Ownerless> find_ownerless(kube::Client& client, const std::string& name_space,
                                      const std::string& run);

}  // namespace mlk
