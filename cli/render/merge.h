// The one rule by which fragments come together: templates' fragments and the user's `patch:` alike.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlk {

// `overlay` laid over `base`:
// - maps merge key by key; a null removes the key
// - lists of named things merge by name, new ones follow: containers and ports are merged, env and volumes
// replaced
//   (two sources of one value make no sense); volumeMounts go by mountPath
// - tolerations and imagePullSecrets append
// - anything else replaces
nlohmann::json merge(nlohmann::json base, const nlohmann::json& overlay);

}  // namespace mlk
