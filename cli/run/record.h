// The final record: the part of a run's state that its owner keeps when the pods are gone.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/status.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

// The record in the owner's data or, if the owner was read as metadata only, in its annotations. nullopt if
// there is none, or it cannot be read.
std::optional<RunStatus> recorded_status(const nlohmann::json& owner);

// The inverse of to_record; nullopt if it is not a record.
std::optional<RunStatus> from_record(const nlohmann::json& record);

// The merge patch that writes the record into the owner.
nlohmann::json record_patch(const RunStatus& status);
// The merge patch that removes it.
nlohmann::json record_removal_patch();

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
