#include "cli/render/framework.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/render/evaluate.h"
#include "cli/render/template_keys.h"

namespace mlk {

using nlohmann::json;
using Kind = YamlNode::Kind;

namespace {

std::string name_in(const Framework& framework, const std::string& role) {
  const auto found = framework.role_names.find(role);
  return found == framework.role_names.end() ? role : found->second;
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
    check_keys(*root, {"role_names", "outside", "environment", "launch", "pod", "objects"}, problems);
    out.environment = child_of(*root, "environment", Kind::map, problems);
    out.launch = child_of(*root, "launch", Kind::list, problems);
    out.pod = child_of(*root, "pod", Kind::map, problems);
    out.objects = child_of(*root, "objects", Kind::list, problems);
    for (const YamlEntry& entry : child_of(*root, "role_names", Kind::map, problems).entries) {
      const json value = to_json(entry.value);
      if (value.is_string()) {
        out.role_names[entry.key] = value.get<std::string>();
      } else {
        problems.add(entry.value.place, "the name of a role is text");
      }
    }
    for (const YamlNode& role : child_of(*root, "outside", Kind::list, problems).items) {
      const json value = to_json(role);
      if (value.is_string()) {
        out.outside.insert(value.get<std::string>());
      } else {
        problems.add(role.place, "the name of a role is text");
      }
    }
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
  return {{"port", pod_port},
          {"cluster_text", cluster.dump()},
          {"role", role.empty() ? "" : name_in(framework, role)}};
}

}  // namespace mlk
