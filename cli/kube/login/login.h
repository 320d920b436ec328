// Describes the user's login and its expiry, for people. Pure: it sends no request and runs no program.
#pragma once

#include <optional>
#include <string>

#include "cli/kube/login/kubeconfig.h"
#include "cli/util/time.h"

namespace mlk::kube {

struct LoginView {
  // "client certificate", "token", "token file", "service account", "oidc", "basic", "exec plugin" or "none";
  // or two of these joined by " and ", if mlk presents both.
  std::string way;
  std::string plugin;           // the program, for "exec plugin"
  std::optional<Time> expires;  // the earliest known expiry of the presented credentials
};

LoginView login_of(const Config& config);

// "expired 2026-11-26T10:00:00Z (2h ago)" or "until ... (3d left)".
std::string text_of_end(Time end, Time now);

// The expiry that the issuer gave for the credential; otherwise the expiry in its token or in its
// certificate, whichever is earlier.
std::optional<Time> end_of(const Credential& credential);

// notAfter of the first certificate of a PEM text.
std::optional<Time> certificate_end(const std::string& pem);

// `exp` of a JSON Web Token; nullopt for any other kind of token, and for a token without `exp`. The
// signature is not checked.
std::optional<Time> token_end(const std::string& token);

}  // namespace mlk::kube
