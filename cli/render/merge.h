// The only rule for merging fragments of templates and of the user's `patch:`.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// `overlay` merged over `base`:
// - maps merge key by key; a null removes the key
// - lists of named things merge by name, and new entries follow: containers and ports are merged, entries of
//   env and volumes are replaced (two sources of one value make no sense); a volumeMount has its mountPath as
//   its name
// - tolerations and imagePullSecrets are appended
// - anything else is replaced
nlohmann::json merge(nlohmann::json base, const nlohmann::json& overlay);

}  // namespace mlk
