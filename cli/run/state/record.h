// The final record: the part of a run's state that its owner keeps when the pods are gone. Pure;
// write_record.h writes the record.
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "cli/run/state/status.h"

namespace mlk {

// The record in the owner's data or, if the owner was read as metadata only, in its annotations. nullopt if
// there is no record, or the record cannot be parsed.
std::optional<RunStatus> recorded_status(const nlohmann::json& owner);

// The inverse of to_record; nullopt if the value is not a record.
std::optional<RunStatus> from_record(const nlohmann::json& record);

// The merge patch that writes the record into the owner.
nlohmann::json record_patch(const RunStatus& status);
// The merge patch that removes the record.
nlohmann::json record_removal_patch();

}  // namespace mlk
