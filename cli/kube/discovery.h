// Reads from the discovery documents of a cluster which kinds of objects it serves.
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
