// Decides which of two runs or sweeps is newer. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk {

// The cluster records the second in which an owner was made. If two owners were made in the same second, mlk
// compares the times at which they were sent, by the clocks of the senders (annotations::submitted). An owner
// made by an older version of mlk has no such annotation, and counts as older.
struct RunAge {
  Time created{};
  std::int64_t submitted = 0;
  std::string name;
  auto operator<=>(const RunAge&) const = default;  // the newer run is greater
};
RunAge age_of(const nlohmann::json& owner);

// The value of annotations::submitted.
std::string submitted_at(Time now);

}  // namespace mlk
