// The rules of a Job about failures and success. Pure.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/util/indexes.h"

namespace mlk::local {

enum class FailureAction { count, ignore, fail_index, fail_job };

struct FailureRule {
  FailureAction action = FailureAction::count;
  std::string message;  // used for FailJob
};

// The decision of podFailurePolicy about a failed pod. If no rule matches, the failure counts.
FailureRule match_failure(const nlohmann::json& job_spec, const nlohmann::json& pod);

// The index of the first rule of successPolicy that is met; nullopt if no rule is met.
std::optional<int> matched_success_rule(const nlohmann::json& job_spec, const Indexes& completed);

}  // namespace mlk::local
