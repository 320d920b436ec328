// What a server leaves out of an object without a word: a closed feature gate drops its fields, also under
// strict validation.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mlk::kube {

// The paths of fields that were `sent` and are missing in what the server `answered`:
// "spec.podFailurePolicy", "spec.template.spec.containers[worker].env[RANK]". Pure.
//
// A field counts as missing only when it says something: null, false, 0, "" and empty lists and maps are what
// a server may leave out for "not set". Values that differ are not missing: servers write 1000m as 1, and
// admission may change an image. Items of lists are found by mountPath, name or key where they have one, else
// by their place; what the server adds does not matter. The stringData of a Secret is looked for in its data.
std::vector<std::string> dropped_fields(const nlohmann::json& sent, const nlohmann::json& answered);

}  // namespace mlk::kube
