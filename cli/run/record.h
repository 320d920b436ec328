// The final record: what is kept of a run in its owner when the pods are gone.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/status.h"

namespace mlk::kube {
class Client;
}

namespace mlk {

// What the owner's record says, from its data or, of an owner that was read as metadata only, from its
// annotations. nullopt when nothing was recorded, or nothing that can be read.
std::optional<RunStatus> recorded_status(const nlohmann::json& owner);

// The inverse of to_record; nullopt when it is no record.
std::optional<RunStatus> from_record(const nlohmann::json& record);

// The merge patch that puts the record into the owner.
nlohmann::json record_patch(const RunStatus& status);
// The one that takes it out again.
nlohmann::json record_removal_patch();

// Suspends the Jobs of an ended run that go on: a lost rank would come back, and servers wait for one, which
// nobody needs any more. Pods that have ended stay, with their logs. Best effort, as write_record().
std::optional<std::string> suspend_what_goes_on(kube::Client& client, const std::string& name_space,
                                                const RunObjects& objects);

// Writes the record of a run that has ended or was stopped, unless an equal one is there already. Best
// effort: returns why it could not be written, and never throws for what the server says.
std::optional<std::string> write_record(kube::Client& client, const std::string& name_space,
                                        const nlohmann::json& owner, const RunStatus& status);

}  // namespace mlk
