// Which kinds of objects a cluster serves: its discovery documents.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/kube/objects.h"
#include "cli/kube/resource.h"

namespace mlk::kube {

// Where the document of an apiVersion lies: "/api/v1", "/apis/batch/v1". Pure.
std::string discovery_path(const std::string& api_version);

// The kinds of an APIResourceList of which objects can be created. What is of a wrong type counts as missing.
// Pure.
std::vector<Resource> resources_in(const json& list, const std::string& api_version);

}  // namespace mlk::kube
