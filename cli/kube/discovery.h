// Finds out which kinds of objects a cluster serves, from its discovery documents.
#pragma once

#include <string>
#include <vector>

#include "cli/kube/objects.h"
#include "cli/kube/resource.h"

namespace mlk::kube {

// The path of the discovery document of an apiVersion: "/api/v1", "/apis/batch/v1". Pure.
std::string discovery_path(const std::string& api_version);

// The kinds of an APIResourceList whose objects can be created. A field of a wrong type counts as missing.
// Pure.
std::vector<Resource> resources_in(const json& list, const std::string& api_version);

}  // namespace mlk::kube
