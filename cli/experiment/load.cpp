#include "cli/experiment/load.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/experiment/arguments.h"
#include "cli/experiment/check.h"
#include "cli/experiment/overrides.h"
#include "cli/experiment/rules.h"
#include "cli/experiment/schema.h"
#include "cli/util/time.h"

namespace mlk {

using nlohmann::json;

namespace {

Role to_role(const json& value) {
  Role role;
  role.count = value["count"].get<int>();
  role.min = value.value("min", role.count);
  role.cpu = value["cpu"].get<std::string>();
  role.memory = value["memory"].get<std::string>();
  role.gpu = value["gpu"].get<int>();
  role.processes = value.value("processes", 1);
  return role;
}

std::string hint_of(const FileContext& file_context) {
  return fmt::format("`{}` describes every key", file_context.manual);
}

// The values have been checked, so this function cannot fail.
Experiment to_experiment(json effective) {
  Experiment out;
  out.name = effective["name"].get<std::string>();
  out.mode = effective["mode"].get<std::string>();
  out.image = effective.value("image", "");
  out.has_train = effective.contains("train");
  if (effective.contains("run")) out.command = program_command(effective);
  for (const auto& [name, role] : effective["roles"].items()) out.roles[name] = to_role(role);
  for (const json& entry : effective["data"]) {
    out.data.push_back({entry["name"].get<std::string>(), entry["mount"].get<std::string>(),
                        entry.value("files", ""), entry["read_only"].get<bool>()});
  }
  out.start_timeout = parse_duration(effective["start_timeout"].get<std::string>()).value();
  if (effective.contains("time_limit"))
    out.time_limit = parse_duration(effective["time_limit"].get<std::string>());
  out.effective = std::move(effective);
  return out;
}

}  // namespace

YamlNode parse_experiment(std::string_view text, const std::string& file_name, const Overrides& overrides,
                          const FileContext& file_context, Problems& problems) {
  YamlNode root = parse_yaml(text, file_name);
  if (root.kind == YamlNode::Kind::null) {
    problems.add(root.place, "the file is empty; an experiment needs at least name, mode and train or run");
  } else if (root.kind != YamlNode::Kind::map) {
    problems.add(root.place, "an experiment is a map of keys such as name, mode and train");
  }
  problems.throw_if_any(hint_of(file_context));
  apply_overrides(root, overrides, problems);
  return root;
}

Experiment check_experiment(const YamlNode& root, const TemplateNames& template_names,
                            const FileContext& file_context, Problems& problems) {
  json effective = check_section(root, schema_section("experiment"), "", problems);
  apply_rules(root, effective, template_names, file_context, problems);
  problems.throw_if_any(hint_of(file_context));
  return to_experiment(std::move(effective));
}

Experiment load_experiment(std::string_view text, const std::string& file_name, const Overrides& overrides,
                           const TemplateNames& template_names, const FileContext& file_context) {
  Problems problems;
  const YamlNode root = parse_experiment(text, file_name, overrides, file_context, problems);
  for (const YamlEntry& entry : root.entries) {
    if (entry.key == "sweep")
      problems.add(entry.place, "this file describes a sweep: start it with `mlk sweep`, or take sweep out");
  }
  return check_experiment(root, template_names, file_context, problems);
}

}  // namespace mlk
