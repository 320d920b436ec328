// The credentials of requests, and the source that provides them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/util/error.h"

namespace mlk::http {

using SteadyTime = std::chrono::steady_clock::time_point;

// Any member may be empty. Never print a credential. mlk sends credentials over TLS only.
struct Credential {
  std::string authorization;  // the value of the header
  std::string certificate_pem, key_pem;
};

using CredentialPtr = std::shared_ptr<const Credential>;

// The loop's thread calls next(), poll_news(), refused() and accepted(), which must not wait. The threads
// that construct and stop the loop call start() and stop().
class CredentialSource {
 public:
  CredentialSource() = default;
  virtual ~CredentialSource() = default;
  CredentialSource(const CredentialSource&) = delete;
  CredentialSource& operator=(const CredentialSource&) = delete;

  // Called first. The source calls `news`, from any thread, when poll_news() has a result.
  virtual void start(std::function<void()> news) = 0;

  struct Turn {
    CredentialPtr send;          // null, and no error: wait for `news`
    std::optional<Error> error;  // there is no credential, and there will be none
  };
  [[nodiscard]] virtual Turn next(SteadyTime now) = 0;

  struct News {
    std::optional<Error> error;  // why the source could make no credential
  };
  [[nodiscard]] virtual std::optional<News> poll_news() = 0;

  // Called when the server has answered 401. Returns true if the request may be sent once more, with the
  // credential that next() then returns.
  [[nodiscard]] virtual bool refused(const CredentialPtr& used, SteadyTime now) = 0;
  // Called when the server has answered with a status other than 401.
  virtual void accepted(const CredentialPtr& used) = 0;
  // Called last. After stop() the source does not call `news`.
  virtual void stop() = 0;
};

}  // namespace mlk::http
