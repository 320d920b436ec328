// Writes the final record into the owner of a run that has ended or was stopped.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/state/status.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

// Writes the record of a run that has ended or was stopped, unless the owner has the record already. Best
// effort: returns the reason if the record could not be written. Never throws for errors of the server.
std::optional<std::string> write_record(kube::Client& client, const std::string& name_space,
                                        const nlohmann::json& owner, const RunStatus& status);

}  // namespace mlk
