#include "cli/kube/login/credentials.h"

#include <utility>

#include "cli/kube/login/login.h"

namespace mlk::kube {
namespace {

// Without this pause, a server that refuses every credential, or a plugin with expired answers, would make
// every request run the plugin.
constexpr std::chrono::seconds between_calls{10};

constexpr std::chrono::seconds oidc_margin{10};  // as in client-go: the request must arrive before the expiry

Error oidc_error(const char* what) {
  return Error(ExitCode::cluster, std::string("the id-token of auth-provider oidc ") + what,
               "mlk does not renew the token: any kubectl command renews it, if the kubeconfig has a "
               "refresh-token; or log in by a credential plugin such as kubelogin");
}

}  // namespace

Credentials::Credentials(const Config& config)
    : by_plugin_(config.exec.has_value()),
      by_oidc_(config.login == Login::oidc),
      token_(config.token, config.token_file) {
  Credential given{config.token, config.client_certificate_pem, config.client_key_pem};
  if (by_oidc_) given.expires = token_end(config.token);
  fixed_ = std::make_shared<const Credential>(std::move(given));
  if (!by_plugin_) current_ = fixed_;
}

Credentials::Turn Credentials::next(SteadyTime now, Time wall) {
  if (by_plugin_) {
    if (current_ && current_->expires) {
      const bool over = borrowed_until_ ? now >= *borrowed_until_ : wall > *current_->expires;
      if (over) current_.reset();
    }
    return {current_, {}};
  }
  if (by_oidc_) {
    if (current_->token.empty()) return {nullptr, oidc_error("is missing")};
    if (!current_->expires) return {nullptr, oidc_error("is no JSON Web Token with an end")};
    if (wall + oidc_margin >= *current_->expires) {
      return {nullptr, oidc_error(("has expired at " + format_time(*current_->expires)).c_str())};
    }
    return {current_, {}};
  }
  if (const std::string& token = token_.current(now); token != current_->token) {
    current_ =
        std::make_shared<const Credential>(Credential{token, fixed_->certificate_pem, fixed_->key_pem});
  }
  return {current_, {}};
}

bool Credentials::refused(const CredentialPtr& used, SteadyTime now) {
  if (!by_plugin_) return token_.renew(used->token, now);
  if (current_ != used) return true;
  if (dropped_ && now - *dropped_ < between_calls) return false;
  dropped_ = now;
  current_.reset();
  return true;
}

void Credentials::accepted(const CredentialPtr& used) {
  if (used == current_) dropped_.reset();
}

void Credentials::renew(Credential credential, SteadyTime now, Time wall) {
  borrowed_until_.reset();
  if (credential.expires && wall >= *credential.expires) borrowed_until_ = now + between_calls;
  current_ = std::make_shared<const Credential>(std::move(credential));
}

}  // namespace mlk::kube
