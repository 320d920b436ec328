// What the driver of a detached sweep may do in its namespace: the ServiceAccount with its Role, whether it
// is there, and creating it.
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

// ServiceAccount, Role and RoleBinding, in the order of their creation. Throws Error{usage} for a template of
// the user's that makes something else.
std::vector<nlohmann::json> render_driver_rights(const Templates& templates, const std::string& name_space);

// For an administrator: what `kubectl apply -f -` takes.
std::string rights_as_yaml(const std::vector<nlohmann::json>& rights);

// Each right of the Role.
std::vector<kube::AccessQuestion> driver_questions(const std::vector<nlohmann::json>& rights);

// "create pods/log": verb and resource, as in messages.
std::string words_of(const kube::AccessQuestion& question);

struct AccountRights {
  enum class Account { there, missing, unknown };
  Account account = Account::unknown;
  bool known = false;                // whether `missing` is: who may not ask for the account does not know
  std::vector<std::string> missing;  // "create jobs"
  bool enough() const { return account != Account::missing && missing.empty(); }
};

// What the driver's account may do, asked by somebody else: ClusterRole `edit` may impersonate the
// ServiceAccounts of its namespace, and that is how the question is put. Throws ApiError.
AccountRights ask_for_account(kube::Client& client, const std::string& name_space,
                              const std::vector<nlohmann::json>& rights);

// Asked by the driver for itself. Throws Error{cluster} with what it may not do.
void require_own_rights(kube::Client& client, const std::string& name_space,
                        const std::vector<nlohmann::json>& rights);

// Creates what is missing, and gives a Role that is there these rights. Throws Error{cluster} when the user
// may not do that.
void create_driver_rights(kube::Client& client, const std::string& name_space,
                          const std::vector<nlohmann::json>& rights);

}  // namespace mlk::sweeps
