#include "cli/local/jobs/job_policy.h"

#include <algorithm>

#include "cli/util/json_path.h"

namespace mlk::local {

using nlohmann::json;

namespace {

// The terminated container that matches the rule, as {name, exit code}.
std::optional<std::pair<std::string, int>> matching_exit(const json& rule, const json& pod) {
  const bool in = rule.at("operator") == "In";
  for (const json& status : at_path(pod, {"status", "containerStatuses"})) {
    const std::string name = status.value("name", "");
    if (rule.contains("containerName") && rule.at("containerName") != name) continue;
    const json::json_pointer at("/state/terminated/exitCode");
    if (!status.contains(at)) continue;
    const int code = status.at(at).get<int>();
    if (code == 0) continue;
    const json& values = rule.at("values");
    const bool listed = std::find(values.begin(), values.end(), json(code)) != values.end();
    if (listed == in) return std::make_pair(name, code);
  }
  return std::nullopt;
}

const json* matching_condition(const json& patterns, const json& conditions) {
  for (const json& pattern : patterns) {
    for (const json& condition : conditions) {
      if (condition.value("type", "") == pattern.value("type", "") &&
          condition.value("status", "") == pattern.value("status", "True")) {
        return &pattern;
      }
    }
  }
  return nullptr;
}

FailureAction action_of(const std::string& text) {
  if (text == "FailJob") return FailureAction::fail_job;
  if (text == "FailIndex") return FailureAction::fail_index;
  return text == "Ignore" ? FailureAction::ignore : FailureAction::count;
}

}  // namespace

FailureRule match_failure(const json& job_spec, const json& pod) {
  if (!job_spec.contains("podFailurePolicy")) return {};
  // A rule describes the end of a pod, so it does not match a pod that has not ended yet.
  if (pod.value("/status/phase"_json_pointer, "") != "Failed") return {};
  const json& conditions = at_path(pod, {"status", "conditions"});
  const json& metadata = pod.at("metadata");
  const std::string name = metadata.value("namespace", "") + "/" + metadata.value("name", "");
  int index = -1;
  for (const json& rule : job_spec.at("podFailurePolicy").at("rules")) {
    ++index;
    const json& patterns = at_path(rule, {"onPodConditions"});
    const std::string action = rule.value("action", "");
    const std::string place = " matching " + action + " rule at index " + std::to_string(index);
    if (rule.contains("onExitCodes")) {
      if (const auto exit = matching_exit(rule.at("onExitCodes"), pod)) {
        return {action_of(action), "Container " + exit->first + " for pod " + name +
                                       " failed with exit code " + std::to_string(exit->second) + place};
      }
    } else if (const json* pattern = matching_condition(patterns, conditions)) {
      return {action_of(action), "Pod " + name + " has condition " + pattern->value("type", "") + place};
    }
  }
  return {};
}

std::optional<int> matched_success_rule(const json& job_spec, const Indexes& completed) {
  if (!job_spec.contains("successPolicy")) return std::nullopt;
  int index = -1;
  for (const json& rule : job_spec.at("successPolicy").value("rules", json::array())) {
    ++index;
    std::size_t met = completed.size();
    std::size_t wanted = 0;
    if (rule.contains("succeededIndexes")) {
      const Indexes chosen =
          Indexes::parse(rule.at("succeededIndexes").get<std::string>()).value_or(Indexes());
      met = chosen.size_of_common(completed);
      wanted = chosen.size();
    }
    if (rule.contains("succeededCount")) wanted = rule.at("succeededCount").get<std::size_t>();
    if (wanted > 0 && met >= wanted) return index;
  }
  return std::nullopt;
}

}  // namespace mlk::local
