#include "cli/run/facts/failure_policy.h"

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/util/json_path.h"

namespace mlk {
namespace {

using json = nlohmann::json;

bool has_pattern(const json& pod, const json& pattern) {
  const std::string type = text_of(pattern, {"type"}), wanted = text_of(pattern, {"status"});
  const json& conditions = at_path(pod, {"status", "conditions"});
  return std::any_of(conditions.begin(), conditions.end(), [&](const json& condition) {
    return text_of(condition, {"type"}) == type &&
           text_of(condition, {"status"}) == (wanted.empty() ? "True" : wanted);
  });
}

bool has_listed_code(const json& pod, const json& pattern) {
  const std::string container = text_of(pattern, {"containerName"});
  const json& values = at_path(pattern, {"values"});
  const bool in = text_of(pattern, {"operator"}) == "In";
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    for (const json& status : at_path(pod, {"status", list})) {
      if (!container.empty() && text_of(status, {"name"}) != container) continue;
      const json& end = at_path(status, {"state", "terminated"});
      const int code = number_of(end, {"exitCode"}, 0);
      if (code == 0) continue;
      if ((std::find(values.begin(), values.end(), code) != values.end()) == in) return true;
    }
  }
  return false;
}

}  // namespace

PolicyAction policy_action(const json& job, const json& pod) {
  for (const json& rule : at_path(job, {"spec", "podFailurePolicy", "rules"})) {
    const json& conditions = at_path(rule, {"onPodConditions"});
    const json& codes = at_path(rule, {"onExitCodes"});
    const bool fits = codes.is_object()
                          ? has_listed_code(pod, codes)
                          : std::any_of(conditions.begin(), conditions.end(),
                                        [&](const json& each) { return has_pattern(pod, each); });
    if (!fits) continue;
    const std::string action = text_of(rule, {"action"});
    if (action == "FailJob") return PolicyAction::fail_job;
    if (action == "FailIndex") return PolicyAction::fail_index;
    return action == "Ignore" ? PolicyAction::ignore : PolicyAction::count;
  }
  return PolicyAction::none;
}

}  // namespace mlk
