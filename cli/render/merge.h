// The only rule for merging fragments of templates and of the user's `patch:`.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// Merges `overlay` over `base`:
// - Maps are merged key by key. A null removes the key.
// - Entries of containers, initContainers, ports, env, volumes and volumeMounts have a name (in volumeMounts,
//   the mountPath). An entry with a new name is appended. An entry with a known name is merged in the first
//   three lists, and replaces the old entry in the others (a value cannot have two sources).
// - tolerations and imagePullSecrets are appended.
// - Any other value is replaced.
nlohmann::json merge(nlohmann::json base, const nlohmann::json& overlay);

}  // namespace mlk
