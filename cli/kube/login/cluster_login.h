// How a cluster's API server is reached and what is presented to it, as the kubeconfig says.
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

// Runs the credential plugin, where there is one, on a thread of its own: it may wait for its user.
class ClusterLogin : public http::CredentialSource {
 public:
  ClusterLogin(Config config, PluginHost host);

  const Config& config() const { return config_; }
  // Until when the credential is good that the plugin gave last; nullopt: unknown. From any thread.
  std::optional<Time> credential_end() const;

  void start(std::function<void()> news) override { news_ = std::move(news); }
  [[nodiscard]] Turn next(http::SteadyTime now) override;
  [[nodiscard]] std::optional<News> take_news() override;
  [[nodiscard]] bool refused(const http::CredentialPtr& used, http::SteadyTime now) override;
  void accepted(const http::CredentialPtr& used) override;
  void stop() override { plugin_.stop(); }

 private:
  struct Presented;

  const Config config_;
  Credentials credentials_;
  std::shared_ptr<const Presented> newest_;
  mutable std::mutex mutex_;
  std::optional<Time> end_;  // under it
  std::function<void()> news_;
  PluginCaller plugin_;  // last: its thread uses the above
};

}  // namespace mlk::kube
