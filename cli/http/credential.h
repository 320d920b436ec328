// What requests present to be let in, and who decides on it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/util/error.h"

namespace mlk::http {

using SteadyTime = std::chrono::steady_clock::time_point;

// Any of them may be empty; never print one. Sent over TLS only.
struct Credential {
  std::string authorization;  // the value of the header
  std::string certificate_pem, key_pem;
};

using CredentialPtr = std::shared_ptr<const Credential>;

// All but `news` is called by one thread, that of the loop; nothing may wait there.
class CredentialSource {
 public:
  CredentialSource() = default;
  virtual ~CredentialSource() = default;
  CredentialSource(const CredentialSource&) = delete;
  CredentialSource& operator=(const CredentialSource&) = delete;

  // Before all others. `news` is called, from any thread, when take_news() has something to tell.
  virtual void start(std::function<void()> news) = 0;

  struct Turn {
    CredentialPtr send;          // null without an error: one is being made, and there will be news
    std::optional<Error> error;  // there is none, and there will be none
  };
  [[nodiscard]] virtual Turn next(SteadyTime now) = 0;

  struct News {
    std::optional<Error> error;  // why none could be made
  };
  [[nodiscard]] virtual std::optional<News> take_news() = 0;

  // The server has answered 401 to it: true when the request may be sent once more, with what next() gives
  // then.
  [[nodiscard]] virtual bool refused(const CredentialPtr& used, SteadyTime now) = 0;
  // The server has answered something else.
  virtual void accepted(const CredentialPtr& used) = 0;
  // After all others; `news` is not called from then on.
  virtual void stop() = 0;
};

}  // namespace mlk::http
