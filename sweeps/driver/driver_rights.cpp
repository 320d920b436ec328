#include "sweeps/driver/driver_rights.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/render/check_objects.h"
#include "cli/render/evaluate.h"
#include "cli/render/yaml.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"
#include "sweeps/driver/driver_job.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr char shape_of_rights[] = "shapes/driver-rights.yaml";

const kube::Resource* resource_of_right(const json& object) {
  using namespace kube::resources;
  for (const kube::Resource* resource : {&service_accounts, &roles, &role_bindings}) {
    if (object["kind"] == resource->kind) return resource;
  }
  return nullptr;
}

std::vector<std::string> refused(const std::vector<kube::AccessQuestion>& questions,
                                 const std::vector<bool>& answers) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (!answers[i]) out.push_back(words_of(questions[i]));
  }
  return out;
}

std::string title_of(const json& object) {
  return object["kind"].get<std::string>() + " " + kube::name_of(object);
}

}  // namespace

std::vector<json> render_driver_rights(const Templates& templates, const std::string& name_space) {
  const json list = evaluate(*parse_template(templates, shape_of_rights), {{"namespace", name_space}});
  const std::string source = name_of_template(templates, shape_of_rights);
  std::vector<json> out;
  for (const json& object : at_path(list, {"items"})) {
    check_head(object, source);
    if (resource_of_right(object) == nullptr) {
      throw Error(ExitCode::usage,
                  fmt::format("{}: it makes a {}, which is no ServiceAccount, Role or RoleBinding", source,
                              title_of(object)));
    }
    out.push_back(object);
  }
  return out;
}

std::string rights_as_yaml(const std::vector<json>& rights) {
  std::string out;
  for (const json& object : rights) out += "---\n" + to_yaml(object);
  return out;
}

std::vector<kube::AccessQuestion> driver_questions(const std::vector<json>& rights) {
  std::vector<kube::AccessQuestion> out;
  for (const json& object : rights) {
    const json& rules = at_path(object, {"rules"});
    if (!rules.is_array()) continue;
    for (const json& rule : rules) {
      for (const std::string& group : texts_in(at_path(rule, {"apiGroups"}))) {
        for (const std::string& written : texts_in(at_path(rule, {"resources"}))) {
          const std::size_t slash = std::min(written.find('/'), written.size());
          const std::string below = slash < written.size() ? written.substr(slash + 1) : "";
          for (const std::string& verb : texts_in(at_path(rule, {"verbs"})))
            out.push_back({verb, kube::Resource{group, "v1", written.substr(0, slash), ""}, below});
        }
      }
    }
  }
  return out;
}

std::string words_of(const kube::AccessQuestion& question) {
  const std::string below = question.subresource.empty() ? "" : "/" + question.subresource;
  return question.verb + " " + question.resource.plural + below;
}

AccountRights ask_for_account(kube::Client& client, const std::string& name_space,
                              const std::vector<json>& rights) {
  AccountRights out;
  try {
    const bool there = client.find(kube::resources::service_accounts, name_space, driver_account).has_value();
    out.account = there ? AccountRights::Account::there : AccountRights::Account::missing;
  } catch (const kube::ApiError& error) {
    if (error.status() != 403) throw;
  }
  try {
    const std::vector<kube::AccessQuestion> questions = driver_questions(rights);
    const std::string account = fmt::format("system:serviceaccount:{}:{}", name_space, driver_account);
    out.missing = refused(questions, kube::may_all(client, name_space, questions, account));
    out.known = true;
  } catch (const kube::ApiError& error) {
    if (error.status() != 403) throw;
  }
  return out;
}

void require_own_rights(kube::Client& client, const std::string& name_space,
                        const std::vector<json>& rights) {
  const std::vector<kube::AccessQuestion> questions = driver_questions(rights);
  const std::vector<std::string> missing = refused(questions, kube::may_all(client, name_space, questions));
  if (missing.empty()) return;
  throw Error(ExitCode::cluster,
              fmt::format("the driver may not {} in namespace '{}'", join(missing, ", "), name_space),
              fmt::format("ServiceAccount {} lacks a part of its Role; a user who may change the Role types "
                          "the sweep's command again with --create-rbac",
                          driver_account));
}

void create_driver_rights(kube::Client& client, const std::string& name_space,
                          const std::vector<json>& rights) {
  for (const json& object : rights) {
    const kube::Resource& resource = *resource_of_right(object);
    try {
      try {
        client.create(resource, name_space, object);
      } catch (const kube::ApiError& error) {
        if (error.status() != 409) throw;
        client.patch(resource, name_space, kube::name_of(object), object);
      }
    } catch (const kube::ApiError& error) {
      if (error.status() != 403 && error.status() != 422) throw;
      throw Error(ExitCode::cluster, fmt::format("{} cannot be created: {}", title_of(object), error.what()),
                  "an administrator of the namespace can apply what is printed above");
    }
  }
}

}  // namespace mlk::sweeps
