// Which credential a request carries, and when another one is needed. Holds it in memory, nowhere else.
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

// Not safe for several threads. Reads token files, and runs nothing: whoever owns it asks the plugin.
class Credentials {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  explicit Credentials(const Config& config);

  struct Turn {
    CredentialPtr send;          // null: ask the plugin, and come again
    std::optional<Error> error;  // there is none, and nobody to ask
  };
  [[nodiscard]] Turn next(SteadyTime now, Time wall);

  // The server has answered 401 to it: true when the request may be sent once more, with what next() gives
  // then.
  [[nodiscard]] bool refused(const CredentialPtr& used, SteadyTime now);
  // The server has answered something else.
  void accepted(const CredentialPtr& used);
  // The plugin's answer.
  void renew(Credential credential, SteadyTime now, Time wall);

 private:
  bool by_plugin_, by_oidc_;
  CredentialPtr fixed_;  // what there is beside the token of a file
  Token token_;
  CredentialPtr current_;
  std::optional<SteadyTime> borrowed_until_;  // of one that had expired when it came
  // When the last one was refused; empty again once the server has accepted one.
  std::optional<SteadyTime> dropped_;
};

}  // namespace mlk::kube
