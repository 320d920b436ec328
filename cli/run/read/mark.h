// Writes an annotation into the owner of a run, in parallel with other requests.
#pragma once

#include <future>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/kube/client.h"

namespace mlk {

// Does not change another owner of the same name that has replaced this owner meanwhile.
[[nodiscard]] std::future<kube::Answer> mark_owner(kube::Client& client, const std::string& name_space,
                                                   const nlohmann::json& owner, const std::string& annotation,
                                                   const std::string& value);

}  // namespace mlk
