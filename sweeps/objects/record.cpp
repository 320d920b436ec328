#include "sweeps/objects/record.h"

#include <algorithm>
#include <array>

#include "cli/run/facts/labels.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "sweeps/space/names.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr std::size_t most_bytes_of_values = 256 * 1024;  // of all parameters

constexpr std::array<std::pair<Parameter::Kind, const char*>, 5> kinds{
    {{Parameter::Kind::choice, "choice"},
     {Parameter::Kind::uniform, "uniform"},
     {Parameter::Kind::log_uniform, "log_uniform"},
     {Parameter::Kind::integer, "int"},
     {Parameter::Kind::log_integer, "log_int"}}};
constexpr std::array<std::pair<Objective::Of, const char*>, 3> ofs{
    {{Objective::Of::last, "last"}, {Objective::Of::best, "best"}, {Objective::Of::mean, "mean"}}};

// Stores only the first values, up to `most_bytes`, since the owner is a single object of limited size. The
// ConfigMaps of points contain all values. If the user's spelling of a value differs from that of JSON, also
// stores the user's spelling.
void put_first_values(const Parameter& parameter, std::size_t most_bytes, json& out) {
  out["values"] = json::array();
  std::size_t bytes = 0;
  for (const json& value : parameter.values) {
    const auto written = parameter.written.find(value);
    const bool spelled = written != parameter.written.end();
    bytes += json_text(value).size() + 1;
    if (spelled) bytes += json_text(value).size() + written->second.size() + 8;
    if (bytes > most_bytes) break;
    out["values"].push_back(value);
    if (spelled) out["written"].push_back({value, written->second});
  }
}

json to_json(const Parameter& parameter, std::size_t most_bytes) {
  json out = {{"path", parameter.path}};
  for (const auto& [kind, name] : kinds) {
    if (kind == parameter.kind) out["kind"] = name;
  }
  if (parameter.kind == Parameter::Kind::choice) {
    put_first_values(parameter, most_bytes, out);
  } else {
    out["low"] = parameter.low;
    out["high"] = parameter.high;
  }
  for (const Condition& condition : parameter.when) out["when"][condition.path] = condition.values;
  return out;
}

double number_at(const json& object, const char* key) {
  const json& value = at_path(object, {key});
  return value.is_number() ? value.get<double>() : 0;
}

std::vector<json> list_at(const json& value) {
  return value.is_array() ? value.get<std::vector<json>>() : std::vector<json>{};
}

Parameter read_parameter(const json& value) {
  Parameter out;
  out.path = text_of(value, {"path"});
  for (const auto& [kind, name] : kinds) {
    if (text_of(value, {"kind"}) == name) out.kind = kind;
  }
  out.values = list_at(at_path(value, {"values"}));
  for (const json& each : list_at(at_path(value, {"written"}))) {
    if (each.is_array() && each.size() == 2 && each[1].is_string())
      out.written.emplace(each[0], each[1].get<std::string>());
  }
  out.low = number_at(value, "low");
  out.high = number_at(value, "high");
  if (const json& when = at_path(value, {"when"}); when.is_object()) {
    for (const auto& [path, values] : when.items()) out.when.push_back({path, list_at(values)});
  }
  return out;
}

json to_json(const Objective& objective) {
  json out = {{objective.goal == Objective::Goal::maximize ? "maximize" : "minimize", objective.metric},
              {"count", objective.count}};
  for (const auto& [of, name] : ofs) {
    if (of == objective.of) out["of"] = name;
  }
  if (!objective.regex.empty()) out["regex"] = objective.regex;
  if (objective.position != "step") out["position"] = objective.position;
  return out;
}

std::optional<Objective> objective_from(const json& value) {
  Objective out;
  const std::string maximized = text_of(value, {"maximize"});
  out.goal = maximized.empty() ? Objective::Goal::minimize : Objective::Goal::maximize;
  out.metric = maximized.empty() ? text_of(value, {"minimize"}) : maximized;
  if (out.metric.empty()) return std::nullopt;
  for (const auto& [of, name] : ofs) {
    if (text_of(value, {"of"}) == name) out.of = of;
  }
  out.count = number_of(value, {"count"}, 1);
  out.regex = text_of(value, {"regex"});
  if (text_of(value, {"position"}) == "epoch") out.position = "epoch";
  return out;
}

}  // namespace

json to_json(const Record& record) {
  json parameters = json::array();
  const std::size_t share = most_bytes_of_values / std::max<std::size_t>(record.space.parameters.size(), 1);
  for (const Parameter& parameter : record.space.parameters) parameters.push_back(to_json(parameter, share));
  json out = {{"schema", 1},
              {"parameters", parameters},
              {"search", record.search},
              {"trials", record.trials},
              {"parallel", record.parallel},
              {"max_failures", record.max_failures},
              {"driven", record.driven},
              {"kin", record.kin},
              {"base", record.base}};
  if (record.objective) out["objective"] = to_json(*record.objective);
  return out;
}

Record read_record(const json& owner) {
  const json value = json_or_null(text_of(owner, {"data", "sweep"}));
  Record out;
  for (const json& parameter : list_at(at_path(value, {"parameters"})))
    out.space.parameters.push_back(read_parameter(parameter));
  out.search = text_of(value, {"search"});
  out.objective = objective_from(at_path(value, {"objective"}));
  out.trials = number_of(value, {"trials"}, 0);
  out.parallel = number_of(value, {"parallel"}, 1);
  out.max_failures = number_of(value, {"max_failures"}, 0);
  out.base = at_path(value, {"base"});
  out.driven = at_path(value, {"driven"}) == true;
  out.kin = text_of(value, {"kin"});
  return out;
}

int usual_failures(std::size_t trials) {
  constexpr std::size_t least = 3, part = 10;
  return static_cast<int>(std::max(least, (trials + part - 1) / part));
}

Record record_of(const Definition& definition, int trials, bool driven) {
  Record out;
  out.driven = driven;
  out.kin = definition.kin;
  out.base = json_of_experiment(definition.base);
  out.space = definition.spec.space;
  out.search = to_string(definition.spec.search.kind);
  out.objective = definition.spec.objective;
  out.trials = trials;
  out.parallel = definition.spec.parallel;
  out.max_failures = definition.spec.max_failures.value_or(usual_failures(static_cast<std::size_t>(trials)));
  return out;
}

json owner_patch(const Record& record) {
  return {{"metadata", {{"annotations", {{annotations::roles, json_text({{"trial", record.trials}})}}}}},
          {"data", {{"sweep", json_text(to_json(record))}}}};
}

bool others_have_added(const Record& record, const Definition& definition, int known) {
  return record.trials > std::max(known, planned_trials(definition));
}

json owner_overlay(const Definition& definition, bool driven) {
  json out = owner_patch(record_of(definition, planned_trials(definition), driven));
  out["metadata"]["labels"][labels::sweep] = definition.identity.run;
  return out;
}

}  // namespace mlk::sweeps
