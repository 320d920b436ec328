// Values that a pod's environment takes from the pod, from ConfigMaps and from Secrets. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace mlk::local {

// fieldRef: "metadata.labels['x']", "status.podIP" ...; nullopt for a path that Kubernetes, too, does not
// know.
std::optional<std::string> pod_field(const nlohmann::json& pod, const std::string& path,
                                     const std::string& address);

// resourceFieldRef: the amount of "limits.cpu" ..., divided by the divisor of the reference and rounded up;
// nullopt if the reference is invalid.
std::optional<std::string> resource_field(const nlohmann::json& container, const nlohmann::json& reference);

// data and binaryData of a ConfigMap or Secret, decoded.
std::map<std::string, std::string> data_of(const nlohmann::json& object);

}  // namespace mlk::local
