// Finds the fields that a server silently drops from an object. For example, a server drops the fields of a
// disabled feature gate, even under strict validation.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk::kube {

// The paths of the fields of the object `sent` that are missing in `answered`, the answer of the server:
// "spec.podFailurePolicy", "spec.template.spec.containers[worker].env[RANK]". Pure.
//
// null, false, 0, "" and empty lists and maps are ignored: a server may drop them as "not set". A number or
// text with another value is not missing, because servers write 1000m as 1, and admission may change an
// image. An item of a list is found by the first of mountPath, name, key and topologyKey that it has,
// otherwise by its index. Additions of the server are ignored. For a key in the stringData of a Secret, the
// answer must have the same key in data.
std::vector<std::string> dropped_fields(const nlohmann::json& sent, const nlohmann::json& answered);

}  // namespace mlk::kube
