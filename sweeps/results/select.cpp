#include "sweeps/results/select.h"

#include <map>
#include <set>

#include <fmt/format.h>

#include "cli/util/json_path.h"
#include "cli/util/number.h"
#include "cli/util/text.h"
#include "cli/where/expression.h"
#include "sweeps/trials/plain_runs.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

using Values = std::map<std::string, json>;
using States = std::vector<std::string>;
using NameSet = std::set<std::string>;

json number_or_null(const std::optional<double>& number) { return number ? json(*number) : json(); }

json seconds_between(const std::optional<Time>& from, const std::optional<Time>& to) {
  return from && to ? json(std::chrono::duration<double>(*to - *from).count()) : json();
}

// The names that mean both a metric and a parameter, each with the path of the parameter.
using Clashes = std::map<std::string, std::string>;

Clashes clashes_of(const NameSet& metrics, const NameSet& paths) {
  Clashes out;
  for (const std::string& metric : metrics) {
    for (const std::string& path : paths) {
      if (path == metric || path.ends_with("." + metric)) out.try_emplace(metric, path);
    }
  }
  return out;
}

// The unambiguous name of a parameter: its path, with "parameters." in front if the path is a single word. A
// table of results gives the same name to a column whose short name is ambiguous.
std::string longer_form(const std::string& path) {
  return path.find('.') == std::string::npos ? "parameters." + path : path;
}

void add_longer_metrics(const json& metrics, const Clashes& clashes, Values& out) {
  if (!metrics.is_object()) return;
  for (const auto& [metric, path] : clashes) {
    if (metrics.contains(metric)) out["metrics." + metric] = metrics[metric];
  }
}

void add_keys(const json& object, NameSet& out) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) out.insert(key);
}

// A parameter or a metric with the name of a field hides the field, since users choose these names.
Values values_of_trial(const Trial& trial, const Clashes& clashes = {}) {
  Values out{{"trial", trial.number},
             {"state", to_string(trial.state)},
             {"objective", number_or_null(trial.objective)},
             {"step", trial.step},
             {"tries", trial.tries},
             {"failure", trial.failure.empty() ? json() : json(trial.failure)},
             {"duration", seconds_between(trial.started, trial.ended)}};
  if (trial.metrics.is_object()) {
    for (const auto& [name, value] : trial.metrics.items()) out[name] = value;
  }
  for (const auto& [path, value] : trial.point) out[path] = out[longer_form(path)] = value;
  add_longer_metrics(trial.metrics, clashes, out);
  return out;
}

const json& metrics_of(const RunStatus& run) { return at_path(run.result, {"metrics"}); }

// The words for the submitters of these runs, and for me.
struct Owners {
  std::vector<std::string> of_runs;
  std::string me;
};

Owners owners_of(const std::vector<RunStatus>& runs, const Me& me) {
  std::vector<Submitter> all;
  for (const RunStatus& run : runs) all.push_back(is_mine(run.submitter, me) ? me.self : run.submitter);
  all.push_back(me.self);
  Owners out{short_names(all), ""};
  out.me = std::move(out.of_runs.back());
  out.of_runs.pop_back();
  return out;
}

void read_me(json& value, const std::string& me) {
  if (value == "me") value = me;
}

// Puts the word for me in place of "me" in comparisons with `owner`.
void read_me(Expression& expression, const std::string& me) {
  Comparison& comparison = expression.comparison;
  if (expression.kind == Expression::Kind::comparison && comparison.left.name == "owner") {
    read_me(comparison.value, me);
    if (comparison.value.is_array()) {
      for (json& each : comparison.value) read_me(each, me);
    }
  }
  for (Expression& part : expression.parts) read_me(part, me);
}

Values named_values(const RunStatus& run, const std::string& owner, Time now, const Clashes& clashes = {}) {
  Values out = parameters_of(run);
  if (const json& metrics = metrics_of(run); metrics.is_object()) {
    for (const auto& [name, value] : metrics.items()) out[name] = value;
  }
  add_longer_metrics(metrics_of(run), clashes, out);
  const std::string phase(to_string(run.phase));
  const Values fields{{"run", run.run},
                      {"name", run.name},
                      {"mode", run.mode},
                      {"phase", phase},
                      {"state", phase},
                      {"step", at_path(run.result, {"step"})},
                      {"restarts", run.restarts},
                      {"why", run.why.empty() ? json() : json(run.why)},
                      {"owner", owner.empty() ? json() : json(owner)},
                      {"age", seconds_between(run.created, now)},
                      {"duration", seconds_between(run.started, run.ended)},
                      {"tags", run.tags}};
  for (const auto& [name, value] : fields)
    out[name] = value;  // so `run` is the name of the run, not its program
  for (const std::string& tag : run.tags) {
    const std::size_t equals = tag.find('=');
    const bool valued = equals != std::string::npos;
    out["tags." + tag.substr(0, equals)] = valued ? json(tag.substr(equals + 1)) : json(true);
  }
  return out;
}

States all_states() {
  States out;
  for (const TrialState state : {TrialState::waiting, TrialState::running, TrialState::succeeded,
                                 TrialState::failed, TrialState::stopped})
    out.emplace_back(to_string(state));
  return out;
}

States names_of_phases() {
  States out;
  for (const Phase phase : all_phases) out.emplace_back(to_string(phase));
  return out;
}

void read_duration(json& value, const Place& place, Problems& problems) {
  if (!value.is_string()) return;
  const std::string text = value.get<std::string>();
  if (const auto seconds = parse_duration(text)) {
    value = seconds->count();
  } else {
    problems.add(place, fmt::format("'{}' is no duration, such as 90s, 10m or 2h", printable(text)));
  }
}

// Turns the duration in a comparison such as age > 2h into a number, since a number is never greater than
// text.
void read_durations(Expression& expression, Problems& problems) {
  Comparison& comparison = expression.comparison;
  if (expression.kind == Expression::Kind::comparison && is_duration(comparison.left.name)) {
    if (comparison.value.is_array()) {
      for (json& each : comparison.value) read_duration(each, comparison.value_place, problems);
    } else {
      read_duration(comparison.value, comparison.value_place, problems);
    }
  }
  for (Expression& part : expression.parts) read_durations(part, problems);
}

// Refuses a comparison such as LR < 1 if each value of LR is text such as "auto". Without this error the
// comparison would select no trial, without an explanation.
void refuse_order_of_text(const Expression& expression, const std::vector<Values>& values,
                          Problems& problems) {
  for (const Expression& part : expression.parts) refuse_order_of_text(part, values, problems);
  const Comparison& comparison = expression.comparison;
  if (expression.kind != Expression::Kind::comparison || !comparison.value.is_number()) return;
  if (comparison.op == Comparison::Operator::equal || comparison.op == Comparison::Operator::not_equal)
    return;
  std::string text;
  for (const Values& each : values) {
    const auto found = each.find(comparison.left.name);
    if (found == each.end() || found->second.is_null()) continue;
    if (!found->second.is_string()) return;
    text = found->second.get<std::string>();
    if (number_of_word(text)) return;
  }
  if (text.empty()) return;
  problems.add(comparison.value_place,
               fmt::format("no value of {} is a number; one is '{}'", comparison.left.name, printable(text)));
}

// Refuses an ambiguous name. Without this error a command could select no trial, or delete the wrong trials.
void refuse_clashes(const Expression& where, const Clashes& clashes) {
  Problems problems;
  for (const NameUse& use : where.names()) {
    const auto clash = clashes.find(use.name);
    if (clash == clashes.end()) continue;
    problems.add(use.place, fmt::format("'{}' is a parameter and a metric; write {} or metrics.{}", use.name,
                                        longer_form(clash->second), use.name));
  }
  problems.throw_if_any();
}

// The indexes of those `values` for which the expression `text` holds. `known`: names that the expression may
// use beside those in `values`. `states`: the possible values of the fields `state` and `phase`. `me`: what
// the word me means in a comparison with `owner`.
std::vector<std::size_t> places_of(const std::vector<Values>& values, NameSet known, const Clashes& clashes,
                                   const States& states, const std::string& text,
                                   const std::string& me = "") {
  for (const Values& each : values) {
    for (const auto& [name, value] : each) known.insert(name);
  }
  const Expression parsed = parse_expression(text, "--where");
  refuse_clashes(parsed, clashes);
  Expression where = check_names(parsed, {known.begin(), known.end()});
  if (!me.empty()) read_me(where, me);
  Problems problems;
  read_durations(where, problems);
  refuse_order_of_text(where, values, problems);
  problems.throw_if_any();
  check_values(where, "state", states);
  check_values(where, "phase", states);
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto lookup = [&](const std::string& name) -> const json* {
      const auto found = values[i].find(name);
      return found == values[i].end() ? nullptr : &found->second;
    };
    if (where.matches(lookup)) out.push_back(i);
  }
  return out;
}

}  // namespace

std::vector<Trial> select(const std::vector<Trial>& trials, const Space& space,
                          const std::string& expression) {
  if (expression.empty()) return trials;
  NameSet paths, metrics, known;
  for (const Parameter& parameter : space.parameters) paths.insert(parameter.path);
  for (const Trial& trial : trials) {
    for (const auto& [path, value] : trial.point) paths.insert(path);
    add_keys(trial.metrics, metrics);
  }
  for (const std::string& path : paths) known.insert({path, longer_form(path)});
  for (const auto& [name, value] : values_of_trial(Trial{})) known.insert(name);
  const Clashes clashes = clashes_of(metrics, paths);
  std::vector<Values> values;
  for (const Trial& trial : trials) values.push_back(values_of_trial(trial, clashes));
  std::vector<Trial> out;
  for (const std::size_t i : places_of(values, std::move(known), clashes, all_states(), expression))
    out.push_back(trials[i]);
  return out;
}

namespace {

// All values of runs, and the names that an expression may use.
struct RunValues {
  std::vector<Values> of_runs;
  NameSet known;
  Clashes clashes;
  std::string me;
};

RunValues collect_values(const std::vector<RunStatus>& runs, Time now, const Me& me) {
  RunValues out;
  NameSet paths, metrics;
  for (const RunStatus& run : runs) {
    for (const auto& [path, value] : parameters_of(run)) paths.insert(path);
    add_keys(metrics_of(run), metrics);
  }
  for (const auto& [name, value] :
       named_values(RunStatus{}, "", now)) {  // the fields hide metrics of the same name
    out.known.insert(name);
    metrics.erase(name);
  }
  out.clashes = clashes_of(metrics, paths);
  Owners owners = owners_of(runs, me);
  for (std::size_t i = 0; i < runs.size(); ++i)
    out.of_runs.push_back(named_values(runs[i], owners.of_runs[i], now, out.clashes));
  out.me = std::move(owners.me);
  return out;
}

}  // namespace

std::vector<RunStatus> select_runs(const std::vector<RunStatus>& runs, Time now,
                                   const std::string& expression, const Me& me) {
  if (expression.empty()) return runs;
  // Without runs the names are unknown, but mlk still reports mistakes in the expression.
  if (runs.empty()) {
    parse_expression(expression, "--where");
    return {};
  }
  RunValues values = collect_values(runs, now, me);
  std::vector<RunStatus> out;
  for (const std::size_t i : places_of(values.of_runs, std::move(values.known), values.clashes,
                                       names_of_phases(), expression, values.me))
    out.push_back(runs[i]);
  return out;
}

std::vector<std::vector<json>> values_of_runs(const std::vector<RunStatus>& runs,
                                              const std::vector<std::string>& names, Time now, const Me& me) {
  std::vector<std::vector<json>> out;
  if (runs.empty()) return out;
  const RunValues values = collect_values(runs, now, me);
  NameSet known = values.known;
  for (const Values& each : values.of_runs) {
    for (const auto& [name, value] : each) known.insert(name);
  }
  Expression all;
  const auto source = std::make_shared<const Source>(Source{"--columns", join(names, ",")});
  std::size_t column = 0;
  for (const std::string& name : names) {
    Expression& use = all.parts.emplace_back();
    use.kind = Expression::Kind::comparison;
    use.comparison.left = {name, Place{source, 0, column}};
    column += name.size() + 1;
  }
  std::vector<std::string> full;
  for (const NameUse& use : check_names(all, {known.begin(), known.end()}).names()) full.push_back(use.name);
  for (const Values& each : values.of_runs) {
    std::vector<json>& row = out.emplace_back();
    for (const std::string& name : full) row.push_back(each.count(name) > 0 ? each.at(name) : json());
  }
  return out;
}

}  // namespace mlk::sweeps
