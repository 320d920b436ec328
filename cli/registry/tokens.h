// The authorization of requests to one registry: none, a password, or tokens for scopes (the Docker
// registry's token authentication).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "cli/http/connection.h"
#include "cli/registry/challenge.h"
#include "cli/registry/logins.h"

namespace mlk::registry {

using SteadyTime = std::chrono::steady_clock::time_point;

// "repository:team/trainer:pull,push"; several scopes are separated by blanks.
using Scope = std::string;

struct Token {
  std::string text;
  std::chrono::seconds lifetime{60};
};

// How long mlk uses a token: less than `lifetime`, so that a request can end before the token expires. Pure.
std::chrono::seconds time_of_use(std::chrono::seconds lifetime);

// The token in the answer of a token server. Throws Error{failure}. The message contains `server`, but no
// part of the answer.
Token parse_token(const std::string& body, const std::string& server);

// The reason why mlk must not use `realm`, the URL of a token server: it is no URL of http or https, it has a
// login, it is not encrypted although the registry's URL is, it leads to a link-local address, or it leads
// from a remote registry to this machine. Empty: mlk may use `realm`. Pure.
std::string wrong_with_realm(const std::string& realm, const std::string& registry_url);

// All functions may be called from several threads at once, so `login` and `ask` may be called in any of
// these threads.
class Tokens {
 public:
  // `login` is called once, at the first challenge; `ask` sends a request to a token server.
  Tokens(std::string registry_url, std::function<std::optional<Login>()> login,
         std::function<http::Reply(const http::Call&)> ask);

  // The value of the Authorization header for a request of this scope. Empty: the registry has not sent a
  // challenge yet, or it wants a password and there is no login. Fetches a token if none is stored. Throws
  // Error{cluster}, or Error{failure} if the answer of the token server has no token.
  std::string authorization(const Scope& scope);

  // Call it if a request with the authorization `used` was answered with 401 and these challenges. Returns
  // true if the request may be sent again with a new authorization(). Passes on the errors of `login`.
  bool renew(const Scope& scope, const std::string& challenges, const std::string& used);

 private:
  struct Kept {
    std::string text;
    SteadyTime until;
  };
  Token fetch(const Scope& scope);

  const std::string registry_url_;
  const std::function<std::optional<Login>()> find_login_;
  const std::function<http::Reply(const http::Call&)> ask_;
  std::mutex mutex_;
  bool has_asked_for_login_ = false;
  std::optional<Login> login_;
  std::optional<Challenge> challenge_;
  std::map<Scope, Kept> kept_;
};

}  // namespace mlk::registry
