#include "sweeps/select.h"

#include <map>
#include <set>

#include "sweeps/expression.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

using Values = std::map<std::string, json>;

json number_or_null(const std::optional<double>& number) { return number ? json(*number) : json(); }

// A parameter or a metric with the name of a field hides it: its author chose the name.
Values values_of_trial(const Trial& trial) {
  Values out{{"trial", trial.number},
             {"state", to_string(trial.state)},
             {"objective", number_or_null(trial.objective)},
             {"step", trial.step},
             {"tries", trial.tries},
             {"failure", trial.failure.empty() ? json() : json(trial.failure)},
             {"duration", nullptr}};
  if (trial.started && trial.ended)
    out["duration"] = std::chrono::duration<double>(*trial.ended - *trial.started).count();
  if (trial.metrics.is_object()) {
    for (const auto& [name, value] : trial.metrics.items()) out[name] = value;
  }
  for (const auto& [path, value] : trial.point) out[path] = value;
  return out;
}

std::vector<std::string> all_states() {
  std::vector<std::string> out;
  for (const TrialState state : {TrialState::waiting, TrialState::running, TrialState::succeeded,
                                 TrialState::failed, TrialState::stopped})
    out.emplace_back(to_string(state));
  return out;
}

}  // namespace

std::vector<Trial> select(const std::vector<Trial>& trials, const Space& space,
                          const std::string& expression) {
  if (expression.empty()) return trials;
  std::vector<Values> values;
  std::set<std::string> known;
  for (const Parameter& parameter : space.parameters) known.insert(parameter.path);
  for (const auto& [name, value] : values_of_trial(Trial{})) known.insert(name);
  for (const Trial& trial : trials) {
    values.push_back(values_of_trial(trial));
    for (const auto& [name, value] : values.back()) known.insert(name);
  }
  const Expression where = check_names(parse_expression(expression, "--where"), {known.begin(), known.end()});
  check_values(where, "state", all_states());
  std::vector<Trial> out;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const auto lookup = [&](const std::string& name) -> const json* {
      const auto found = values[i].find(name);
      return found == values[i].end() ? nullptr : &found->second;
    };
    if (where.matches(lookup)) out.push_back(trials[i]);
  }
  return out;
}

}  // namespace mlk::sweeps
