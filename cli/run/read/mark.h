// Writes an annotation into the owner of a run, beside other requests.
#pragma once

#include <future>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/kube/client.h"

namespace mlk {

// Another owner of the same name, that has taken its place meanwhile, is not changed.
[[nodiscard]] std::future<kube::Answer> mark_owner(kube::Client& client, const std::string& name_space,
                                                   const nlohmann::json& owner, const std::string& annotation,
                                                   const std::string& value);

}  // namespace mlk
