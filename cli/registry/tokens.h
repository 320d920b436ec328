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

// "repository:team/trainer:pull,push"; several have a blank between them.
using Scope = std::string;

struct Token {
  std::string text;
  std::chrono::seconds lifetime{60};
};

// How long a token is used: it is given up before its end, in time for a request. Pure.
std::chrono::seconds time_of_use(std::chrono::seconds lifetime);

// What a token server answers. Throws Error{failure}, naming `server` and nothing of the text.
Token parse_token(const std::string& body, const std::string& server);

// Why a token server's URL must not be asked: it is none, it is not encrypted although the registry's is, or
// it leads from a registry elsewhere into this machine or its link. Empty: it may. Pure.
std::string wrong_with_realm(const std::string& realm, const std::string& registry_url);

// Safe from several threads; the functions are then called from each of them.
class Tokens {
 public:
  // `login` is asked once, at the first challenge; `ask` sends a request to a token server.
  Tokens(std::string registry_url, std::function<std::optional<Login>()> login,
         std::function<http::Reply(const http::Call&)> ask);

  // The value of the header for a request of this scope; empty: none is needed, or nothing is known yet.
  std::string authorization(const Scope& scope);

  // The registry has answered 401 with these challenges to a request that sent `used`. True if the request
  // may be sent again, with what authorization() gives then. Throws Error{cluster}.
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
