// Writes the final record into the owner of a run that has ended, and ends what would go on.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/state/status.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

// Suspends the Jobs of an ended run that would continue: they would restart a lost rank, or keep servers
// waiting for one, which is no longer needed. Ended pods stay, with their logs. Best effort, as
// write_record().
std::optional<std::string> suspend_what_goes_on(kube::Client& client, const std::string& name_space,
                                                const RunObjects& objects);

// Writes the record of a run that has ended or was stopped, unless it is there already. Best effort: returns
// the reason if it could not be written. Never throws for errors of the server.
std::optional<std::string> write_record(kube::Client& client, const std::string& name_space,
                                        const nlohmann::json& owner, const RunStatus& status);

}  // namespace mlk
