// How one is logged in, and until when, for people to read. Pure: nothing is asked, nothing is run.
#pragma once

#include <optional>
#include <string>

#include "cli/kube/kubeconfig.h"
#include "cli/util/time.h"

namespace mlk::kube {

struct LoginView {
  // "client certificate", "token", "token file", "service account", "oidc", "basic", "exec plugin" or "none";
  // or two of them, joined by " and ", where both are presented.
  std::string way;
  std::string plugin;           // the program, of "exec plugin"
  std::optional<Time> expires;  // the earliest end of what is presented, where it can be read
};

LoginView login_of(const Config& config);

// When it expires, as whoever made it says, else as it says itself.
std::optional<Time> end_of(const Credential& credential);

// notAfter of the first certificate of a PEM text.
std::optional<Time> certificate_end(const std::string& pem);

// `exp` of a JSON Web Token; nullopt for any other token, or one without it. The signature is not looked at.
std::optional<Time> token_end(const std::string& token);

}  // namespace mlk::kube
