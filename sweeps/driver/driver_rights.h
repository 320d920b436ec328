// The rights of a detached sweep's driver in its namespace: renders its ServiceAccount and Role, checks
// whether they exist, and creates them.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/kube/access.h"
#include "cli/render/templates.h"

namespace mlk::kube {
class Client;
}

namespace mlk::sweeps {

// ServiceAccount, Role and RoleBinding, in the order of their creation. Throws Error{usage} if a user's
// template makes other objects.
std::vector<nlohmann::json> render_driver_rights(const Templates& templates, const std::string& name_space);

// The objects as YAML for `kubectl apply -f -`, for an administrator.
std::string rights_as_yaml(const std::vector<nlohmann::json>& rights);

// The questions for the API server, one for each right of the Role.
std::vector<kube::AccessQuestion> driver_questions(const std::vector<nlohmann::json>& rights);

// The verb and the resource of a question, as messages show them: "create pods/log".
std::string words_of(const kube::AccessQuestion& question);

struct AccountRights {
  enum class Account { there, missing, unknown };
  Account account = Account::unknown;
  bool known = false;  // whether `missing` is known; false if the user may not impersonate the account
  std::vector<std::string> missing;  // "create jobs"
  bool enough() const { return account != Account::missing && missing.empty(); }
};

// Asks the server which of these rights the driver's account has. mlk impersonates the account for these
// questions. A user with ClusterRole `edit` may impersonate the ServiceAccounts of the namespace. Throws
// ApiError.
AccountRights ask_for_account(kube::Client& client, const std::string& name_space,
                              const std::vector<nlohmann::json>& rights);

// For the driver: checks its own rights. Throws Error{cluster} that lists the missing rights.
void require_own_rights(kube::Client& client, const std::string& name_space,
                        const std::vector<nlohmann::json>& rights);

// Creates each object, or changes an existing object of the same name to this content. Throws Error{cluster}
// if the server refuses an object.
void create_driver_rights(kube::Client& client, const std::string& name_space,
                          const std::vector<nlohmann::json>& rights);

}  // namespace mlk::sweeps
