// Which of two runs, or sweeps, is the newer one. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/util/time.h"

namespace mlk {

// The cluster tells the second in which an owner was made; within it, the sender's clock decides
// (annotations::submitted). An owner that does not have it, of an earlier mlk, counts as older.
struct RunAge {
  Time created{};
  std::int64_t submitted = 0;
  std::string name;
  auto operator<=>(const RunAge&) const = default;  // the newer one is greater
};
RunAge age_of(const nlohmann::json& owner);

// The value of annotations::submitted.
std::string submitted_at(Time now);

}  // namespace mlk
