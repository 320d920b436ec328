// Decides which credential a request carries, and when mlk needs a new credential. Keeps credentials only in
// memory.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "cli/kube/login/credential.h"
#include "cli/kube/login/kubeconfig.h"
#include "cli/kube/login/token.h"
#include "cli/util/error.h"

namespace mlk::kube {

using CredentialPtr = std::shared_ptr<const Credential>;

// Not thread-safe. Reads token files but runs no plugin; the owner of this object runs the plugin.
class Credentials {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  explicit Credentials(const Config& config);

  struct Turn {
    CredentialPtr send;          // null: run the plugin, call renew(), then call next() again
    std::optional<Error> error;  // set if the id-token of auth-provider oidc cannot be used
  };
  [[nodiscard]] Turn next(SteadyTime now, Time wall);

  // Call it after a 401 for `used`. Returns true if the caller shall send the request once more, with the
  // credential that next() then returns.
  [[nodiscard]] bool refused(const CredentialPtr& used, SteadyTime now);
  // Call it after any other answer.
  void accepted(const CredentialPtr& used);
  // Call it with the new credential from the plugin.
  void renew(Credential credential, SteadyTime now, Time wall);

 private:
  bool by_plugin_, by_oidc_;
  CredentialPtr fixed_;  // the configuration's credential; a token file replaces its token
  Token token_;
  CredentialPtr current_;
  std::optional<SteadyTime> borrowed_until_;  // until then, mlk uses an expired credential of the plugin
  // The time when a refused credential was last dropped. Reset when the server accepts the current
  // credential.
  std::optional<SteadyTime> dropped_;
};

}  // namespace mlk::kube
