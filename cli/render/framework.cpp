#include "cli/render/framework.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/render/evaluate.h"
#include "cli/render/helper.h"
#include "cli/render/template_keys.h"
#include "cli/util/error.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {

using nlohmann::json;
using Kind = YamlNode::Kind;

namespace {

std::string name_in(const Framework& framework, const std::string& role) {
  const auto found = framework.role_names.find(role);
  return found == framework.role_names.end() ? role : found->second;
}

bool flag_of(const YamlNode& root, const char* key, Problems& problems) {
  const YamlNode* found = root.find(key);
  if (found == nullptr) return false;
  const json value = to_json(*found);
  if (!value.is_boolean()) problems.add(found->place, fmt::format("{} is true or false", key));
  return value == true;
}

std::string name_of_role(const YamlNode& node, Problems& problems) {
  const json value = to_json(node);
  if (value.is_string()) return value.get<std::string>();
  problems.add(node.place, "the name of a role is text");
  return {};
}

bool wants_helper(const YamlNode& root, Problems& problems) {
  const YamlNode* found = root.find("helper");
  if (found == nullptr) return false;
  const json value = to_json(*found);
  if (value.is_string() && value.get<std::string>() == mpi_helper.name) return true;
  problems.add(found->place, fmt::format("there is one helper, {}", mpi_helper.name));
  return false;
}

}  // namespace

Framework load_framework(const Templates& templates, const std::string& name) {
  Framework out;
  if (name.empty() || name == "none") return out;
  const std::shared_ptr<const YamlNode> root = parse_template(templates, "frameworks/" + name + ".yaml");
  Problems problems;
  if (root->kind != Kind::map) {
    problems.add(root->place, "a framework is a map with environment");
  } else {
    check_keys(*root,
               {"role_names", "outside", "environment", "launch", "always_launch", "key", "helper", "pod",
                "job", "objects"},
               problems);
    out.environment = child_of(*root, "environment", Kind::map, problems);
    out.launch = child_of(*root, "launch", Kind::list, problems);
    out.pod = child_of(*root, "pod", Kind::map, problems);
    out.job = child_of(*root, "job", Kind::map, problems);
    out.always_launch = flag_of(*root, "always_launch", problems);
    out.key = flag_of(*root, "key", problems);
    out.helper = wants_helper(*root, problems);
    out.objects = child_of(*root, "objects", Kind::list, problems);
    for (const YamlEntry& entry : child_of(*root, "role_names", Kind::map, problems).entries)
      out.role_names[entry.key] = name_of_role(entry.value, problems);
    for (const YamlNode& role : child_of(*root, "outside", Kind::list, problems).items)
      out.outside.insert(name_of_role(role, problems));
  }
  problems.throw_if_any();
  out.name = name;
  return out;
}

json framework_scope(const Framework& framework, const std::string& run, const std::vector<RoleInRun>& roles,
                     const std::string& role) {
  if (framework.name.empty()) return nullptr;
  json cluster = json::object();
  for (const RoleInRun& each : roles) {
    if (framework.outside.count(each.name)) continue;
    json& addresses = cluster[name_in(framework, each.name)];
    for (int rank = 0; rank < each.size.count; ++rank)
      addresses.push_back(pod_address(run, each.name, std::to_string(rank)));
  }
  std::vector<std::string> addresses;
  for (const RoleInRun& each : roles) {
    for (int rank = 0; each.name == role && rank < each.size.count; ++rank)
      addresses.push_back(pod_address(run, role, std::to_string(rank)));
  }
  return {{"port", pod_port},
          {"addresses", join(addresses, ",")},
          {"cluster_text", cluster.dump()},
          {"role", role.empty() ? "" : name_in(framework, role)}};
}

bool is_launched(const Experiment& experiment, const Framework& framework, const Role& size) {
  return experiment.effective.value("elastic", false) || size.processes > 1 || framework.always_launch;
}

std::vector<std::string> launched(const Experiment& experiment, const Framework& framework, const Role& size,
                                  const json& scope) {
  if (!is_launched(experiment, framework, size)) return experiment.command;
  if (framework.launch.items.empty()) {
    throw Error(ExitCode::usage,
                fmt::format("{} needs a framework with a launcher, and {} has none",
                            experiment.effective.value("elastic", false) ? "elastic" : "processes",
                            framework.name.empty() ? "the experiment" : framework.name),
                "for example: framework: torch");
  }
  std::vector<std::string> out;
  for (const json& word : evaluate(framework.launch, scope)) out.push_back(text_or_json(word));
  out.insert(out.end(), experiment.command.begin(), experiment.command.end());
  return out;
}

}  // namespace mlk
