// The only rule for merging fragments: those of templates and the user's `patch:`.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// `overlay` merged over `base`:
// - maps merge key by key; a null removes the key
// - lists of named things merge by name, new entries follow: containers and ports are merged, env and volumes
// replaced (two sources of one value make no sense); the name of a volumeMount is its mountPath
// - tolerations and imagePullSecrets are appended
// - anything else is replaced
nlohmann::json merge(nlohmann::json base, const nlohmann::json& overlay);

}  // namespace mlk
