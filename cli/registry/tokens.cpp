#include "cli/registry/tokens.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/http/url.h"
#include "cli/registry/address.h"
#include "cli/registry/answers.h"
#include "cli/util/error.h"
#include "cli/util/hash.h"
#include "cli/util/json.h"
#include "cli/util/text.h"

namespace mlk::registry {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds before_its_end{10};
constexpr std::size_t longest_token = 64 << 10;

std::string basic(const Login& login) { return "Basic " + base64_encode(login.user + ":" + login.password); }

// Each scope is a parameter of its own. `service` may be empty.
std::string as_query(const std::string& service, const Scope& scope) {
  std::vector<std::string> out;
  if (!service.empty()) out.push_back("service=" + http::percent_encode(service));
  for (const std::string& each : split(scope, ' ')) out.push_back("scope=" + http::percent_encode(each));
  return join(out, "&");
}

// Accepts only visible characters of ASCII, because other characters could change the head of the request.
bool is_sendable(const std::string& text) {
  return !text.empty() && text.size() <= longest_token &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

std::chrono::seconds time_of_use(std::chrono::seconds lifetime) {
  return std::max(lifetime - before_its_end, lifetime / 2);
}

Token parse_token(const std::string& body, const std::string& server) {
  const json answer = json_or_null(body, {.depth = 20, .values = 10'000});
  Token out;
  for (const char* key : {"access_token", "token"}) {
    if (answer.is_object() && answer.contains(key) && answer[key].is_string()) out.text = answer[key];
  }
  if (!is_sendable(out.text)) throw Error(ExitCode::failure, server + " gave no token");
  const json lifetime = answer.value("expires_in", json());
  if (lifetime.is_number_unsigned())
    out.lifetime = std::chrono::seconds(std::min<std::uint64_t>(lifetime.get<std::uint64_t>(), 86'400));
  return out;
}

std::string wrong_with_realm(const std::string& realm, const std::string& registry_url) {
  const auto parts = http::parts_of(realm);
  if (parts && parts->has_login) return "an address that is not a valid URL";
  return wrong_with_target(registry_url, realm);
}

Tokens::Tokens(std::string registry_url, std::function<std::optional<Login>()> login,
               std::function<http::Reply(const http::Call&)> ask)
    : registry_url_(std::move(registry_url)), find_login_(std::move(login)), ask_(std::move(ask)) {}

std::string Tokens::authorization(const Scope& scope) {
  const std::lock_guard lock(mutex_);
  if (!challenge_) return "";
  if (challenge_->scheme == "basic") return login_ ? basic(*login_) : "";
  const auto found = kept_.find(scope);
  if (found != kept_.end() && Clock::now() < found->second.until) return "Bearer " + found->second.text;
  const Token token = fetch(scope);
  kept_[scope] = {token.text, Clock::now() + time_of_use(token.lifetime)};
  return "Bearer " + token.text;
}

bool Tokens::renew(const Scope& scope, const std::string& challenges, const std::string& used) {
  const std::lock_guard lock(mutex_);
  if (!has_asked_for_login_) login_ = find_login_();
  has_asked_for_login_ = true;
  const std::optional<Challenge> best = best_of(parse_challenges(challenges));
  if (!best) return false;
  challenge_ = best;
  if (best->scheme == "basic") return login_ && used != basic(*login_) && login_->identity_token.empty();
  const auto found = kept_.find(scope);
  // Removes only the refused token, because another thread may have renewed the token meanwhile.
  if (found != kept_.end() && used == "Bearer " + found->second.text) kept_.erase(found);
  return true;
}

// Called with the mutex locked, so that other threads wait for the token and do not request it again.
Token Tokens::fetch(const Scope& scope) {
  const std::string& realm = challenge_->parameters.at("realm");
  const auto parts = http::parts_of(realm);
  const std::string wrong = wrong_with_realm(realm, registry_url_);
  if (!wrong.empty())
    throw Error(ExitCode::cluster,
                fmt::format("registry {} sends mlk for a token to {}, and mlk does not go there",
                            http::parts_of(registry_url_)->authority, wrong));
  const std::string server = "the token server " + printable(parts->authority);
  const auto service = challenge_->parameters.find("service");
  const std::string query = as_query(service == challenge_->parameters.end() ? "" : service->second, scope);
  const auto ask = [&](const http::Call& call) {
    http::Reply reply = ask_(call);
    if (reply.failure.kind == http::Failure::Kind::closed) throw Error(ExitCode::interrupted, "interrupted");
    if (reply.failure.kind != http::Failure::Kind::none)
      throw Error(ExitCode::cluster,
                  fmt::format("{} cannot be reached: {}", server, describe(reply.failure)));
    return reply;
  };
  const std::string get = realm + (realm.find('?') == realm.npos ? "?" : "&") + query;
  http::Reply reply;
  if (login_ && !login_->identity_token.empty()) {
    const std::string form = fmt::format("grant_type=refresh_token&client_id=mlk&refresh_token={}&{}",
                                         http::percent_encode(login_->identity_token), query);
    reply = ask({.method = "POST",
                 .url = realm,
                 .headers = {{"Content-Type", "application/x-www-form-urlencoded"}},
                 .body = form});
  } else {
    http::Call call{.url = get};
    if (login_) call.headers = {{"Authorization", basic(*login_)}};
    reply = ask(call);
  }
  if (reply.status == 401 || reply.status == 403)
    throw Error(
        ExitCode::cluster,
        login_ ? fmt::format("{} refuses the login for {}", server, http::parts_of(registry_url_)->authority)
               : fmt::format("{} gives no token without a login", server),
        "log in: docker login " + http::parts_of(registry_url_)->authority);
  if (!reply.ok())
    throw Error(ExitCode::cluster, fmt::format("{} answered with status {}", server, reply.status));
  return parse_token(reply.body, server);
}

}  // namespace mlk::registry
