#include "cli/render/job_type.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/experiment/rules.h"
#include "cli/experiment/values.h"
#include "cli/render/evaluate.h"
#include "cli/render/template_keys.h"

namespace mlk {

using nlohmann::json;
using Kind = YamlNode::Kind;

namespace {

std::vector<std::string> codes_of(const YamlNode& node, const char* key, Problems& problems) {
  const Key as_rules{key, Type::retry_rules, "", "", ""};
  const YamlNode* found = node.find(key);
  const json codes = found == nullptr ? json::array() : check_value(*found, as_rules, key, problems);
  std::vector<std::string> out;
  if (!codes.is_array()) return out;
  for (const json& code : codes) {
    if (code.is_string()) out.push_back(code.get<std::string>());
  }
  return out;
}

RoleTemplate to_role(const YamlNode& node, Problems& problems) {
  RoleTemplate role;
  if (node.kind != Kind::map) {
    problems.add(node.place, "a role is a map with name, count and ends_run");
    return role;
  }
  check_keys(node, {"name", "count", "ends_run", "final_exit_codes", "environment", "pod", "job"}, problems);
  const json name = node.find("name") != nullptr ? to_json(*node.find("name")) : json();
  if (name.is_string() && is_dns_label(name.get<std::string>(), longest_role)) {
    role.name = name.get<std::string>();
  } else {
    problems.add(
        node.place,
        fmt::format("a role needs a name: lower-case letters, digits and '-', at most {}", longest_role));
  }
  if (const YamlNode* count = node.find("count")) {
    const json value = check_value(*count, {"count", Type::whole, "1..5000", "", ""}, "count", problems);
    if (value.is_number()) role.count = value.get<int>();
  }
  if (const YamlNode* ends_run = node.find("ends_run")) {
    const json value = check_value(*ends_run, {"ends_run", Type::boolean, "", "", ""}, "ends_run", problems);
    role.ends_run = value.is_boolean() && value.get<bool>();
  }
  const YamlNode codes = child_of(node, "final_exit_codes", Kind::map, problems);
  check_keys(codes, {"train", "run"}, problems);
  role.final_for_train = codes_of(codes, "train", problems);
  role.final_for_run = codes_of(codes, "run", problems);
  role.environment = child_of(node, "environment", Kind::map, problems);
  role.pod = child_of(node, "pod", Kind::map, problems);
  role.job = child_of(node, "job", Kind::map, problems);
  return role;
}

}  // namespace

JobType load_job_type(const Templates& templates, const std::string& name) {
  const std::shared_ptr<const YamlNode> tree = parse_template(templates, "jobs/" + name + ".yaml");
  const YamlNode& root = *tree;
  Problems problems;
  JobType type;
  if (root.kind != Kind::map) {
    problems.add(root.place, "a job type is a map with roles");
  } else {
    check_keys(root, {"roles", "parameters", "objects"}, problems);
    type.parameters = child_of(root, "parameters", Kind::map, problems);
    type.objects = child_of(root, "objects", Kind::list, problems);
    for (const YamlNode& role : child_of(root, "roles", Kind::list, problems).items)
      type.roles.push_back(to_role(role, problems));
    const auto ends = std::count_if(type.roles.begin(), type.roles.end(),
                                    [](const RoleTemplate& role) { return role.ends_run; });
    if (ends != 1) problems.add(root.place, "exactly one role must have ends_run: true");
  }
  problems.throw_if_any();
  return type;
}

}  // namespace mlk
