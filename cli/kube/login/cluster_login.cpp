#include "cli/kube/login/cluster_login.h"

#include <utility>

#include "cli/kube/login/login.h"
#include "cli/util/hash.h"

namespace mlk::kube {
namespace {

std::string authorization_of(const Config& config, const Credential& credential) {
  if (!credential.token.empty()) return "Bearer " + credential.token;
  if (config.username.empty()) return "";
  return "Basic " + base64_encode(config.username + ":" + config.password);
}

}  // namespace

http::ServerAccess server_of(const Config& config) {
  return {.url = config.server,
          .ca_pem = config.ca_pem,
          .insecure = config.insecure,
          .tls_server_name = config.tls_server_name,
          .proxy_url = config.proxy_url,
          .compression = config.compression,
          .most_held = config.most_held,
          .headers = config.impersonation,
          .check_path = "/version",
          .silence = config.silence,
          .longest_trying = config.longest_trying};
}

// An HTTP credential, with a pointer to the mlk::kube::Credential from which it was made.
struct ClusterLogin::Presented : http::Credential {
  Presented(const Config& config, CredentialPtr made_of)
      : http::Credential{authorization_of(config, *made_of), made_of->certificate_pem, made_of->key_pem},
        of(std::move(made_of)) {}
  const CredentialPtr of;
  static const CredentialPtr& behind(const http::CredentialPtr& used) {
    return static_cast<const Presented&>(*used).of;
  }
};

ClusterLogin::ClusterLogin(Config config, PluginHost host)
    : config_(std::move(config)),
      credentials_(config_),
      plugin_(
          [this, host = std::move(host)](const auto& give_up) { return call_plugin(config_, host, give_up); },
          [this] { news_(); }) {}

std::optional<Time> ClusterLogin::credential_end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

http::CredentialSource::Turn ClusterLogin::next(http::SteadyTime now) {
  Credentials::Turn turn = credentials_.next(now, std::chrono::system_clock::now());
  if (turn.error) return {nullptr, std::move(turn.error)};
  if (!turn.send) {
    plugin_.start();
    return {};
  }
  if (!newest_ || newest_->of != turn.send) newest_ = std::make_shared<const Presented>(config_, turn.send);
  return {newest_, {}};
}

std::optional<http::CredentialSource::News> ClusterLogin::poll_news() {
  std::optional<PluginAnswer> answer = plugin_.poll();
  if (!answer) return std::nullopt;
  if (answer->error) return News{std::move(answer->error)};
  {
    const std::lock_guard lock(mutex_);
    end_ = end_of(answer->credential);
  }
  credentials_.renew(std::move(answer->credential), http::SteadyTime::clock::now(),
                     std::chrono::system_clock::now());
  return News{};
}

bool ClusterLogin::refused(const http::CredentialPtr& used, http::SteadyTime now) {
  return credentials_.refused(Presented::behind(used), now);
}

void ClusterLogin::accepted(const http::CredentialPtr& used) {
  credentials_.accepted(Presented::behind(used));
}

}  // namespace mlk::kube
