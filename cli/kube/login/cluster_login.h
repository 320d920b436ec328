// Gives the HTTP client the address of an API server and the credentials, from the settings of the
// kubeconfig.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "cli/http/credential.h"
#include "cli/http/server.h"
#include "cli/kube/login/credentials.h"
#include "cli/kube/login/exec_call.h"
#include "cli/kube/login/kubeconfig.h"

namespace mlk::kube {

http::ServerAccess server_of(const Config& config);

// Runs the credential plugin, if there is one, on a separate thread, because the plugin may wait for the
// user.
class ClusterLogin : public http::CredentialSource {
 public:
  ClusterLogin(Config config, PluginHost host);

  const Config& config() const { return config_; }
  // The expiry of the plugin's last credential; nullopt: unknown. May be called from any thread.
  std::optional<Time> credential_end() const;

  void start(std::function<void()> news) override { news_ = std::move(news); }
  [[nodiscard]] Turn next(http::SteadyTime now) override;
  [[nodiscard]] std::optional<News> poll_news() override;
  [[nodiscard]] bool refused(const http::CredentialPtr& used, http::SteadyTime now) override;
  void accepted(const http::CredentialPtr& used) override;
  void stop() override { plugin_.stop(); }

 private:
  struct Presented;

  const Config config_;
  Credentials credentials_;
  std::shared_ptr<const Presented> newest_;
  mutable std::mutex mutex_;
  std::optional<Time> end_;  // guarded by the mutex
  std::function<void()> news_;
  PluginCaller plugin_;  // declared last, because its thread uses the other members
};

}  // namespace mlk::kube
