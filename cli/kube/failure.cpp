#include "cli/kube/failure.h"

#include <map>

#include <nlohmann/json.hpp>

#include "cli/kube/forbidden.h"
#include "cli/kube/login/login.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::kube {
namespace {

using json = nlohmann::json;

struct Words {
  std::string what, hint;
};

std::string where_from(const Config& config) {
  std::string text = config.source.empty() ? "the configuration" : config.source;
  if (!config.context.empty()) text += " (context " + config.context + ")";
  return text;
}

// The authority at fault is in the cluster's entry or in this machine's list, never in the user's entry.
Words words_for_authority(const std::string& detail, const Config& config, const std::string& from) {
  if (config.ca_pem.empty())
    return {"this machine's list of certificate authorities cannot be read: " + detail,
            "install the package ca-certificates, or set certificate-authority in " + from};
  return {"certificate-authority of the cluster cannot be used: " + detail,
          "it must be in PEM in " + from + "; `kubectl config view` omits it without --raw"};
}

Words words_for(const Failure& failure, const Config& config) {
  using Kind = Failure::Kind;
  const std::string& detail = failure.detail;
  const std::string from = where_from(config);
  switch (failure.kind) {
    case Kind::resolve:
      return {"no such host", "check your network or VPN, and the server in " + from};
    case Kind::proxy:
      return {detail, failure.hint + (config.proxy_url.empty() ? "" : " in " + from)};
    case Kind::refused:
      return {"connection refused", "is the cluster running? the server's address is from " + from};
    case Kind::no_route:
      return {detail, "check your network or VPN, and the server in " + from};
    case Kind::timed_out:
      return {detail, "check your network or VPN; the server's address is from " + from};
    case Kind::untrusted:
      return {"its certificate is signed by an unknown authority (" + detail + ")",
              "certificate-authority in " + from + " is not of this cluster, or is missing"};
    case Kind::expired:
      return {"its certificate is not valid now: " + detail,
              "check this machine's clock; otherwise the cluster's operators must renew it"};
    case Kind::host_name:
      return {"its certificate is for another name: " + detail,
              "check server and tls-server-name in " + from};
    case Kind::authority:
      return words_for_authority(detail, config, from);
    case Kind::client_certificate:
      return {"certificate or key of user \"" + config.user + "\" cannot be used: " + detail,
              "look at the entry in " + (config.user_source.empty() ? from : config.user_source)};
    case Kind::tls:
      return {"no TLS connection: " + detail, "check the server in " + from};
    case Kind::handshake:
      return {"the connection ended within the TLS handshake",
              "is the cluster starting? the server's address is from " + from};
    case Kind::silent:
      return {"nothing came over the connection, while another one was answered", ""};
    case Kind::broken:
      return {"the connection broke" + (detail.empty() ? "" : ": " + detail), ""};
    case Kind::too_large:
      return {"its answer is too large: " + detail, ""};
    case Kind::closed:
      return {"the client was closed", ""};
    case Kind::none:
    case Kind::credentials:
    case Kind::other:
      break;
  }
  return {detail.empty() ? "no answer" : detail, ""};
}

// Returns one line of bounded length, because the text comes from the server, or from a proxy before it.
std::string sentence(const std::string& text) {
  constexpr std::size_t longest = 600;
  std::string line = printable_line(cut(text, longest));
  if (text.size() > longest) line += "...";
  return std::string(trim(line));
}

// The reason for an answer that gives no reason, for example because a proxy has sent it. The reason is never
// NotFound, because only an API server knows that an object does not exist.
std::string reason_for(int status) {
  static const std::map<int, std::string> reasons = {{400, "BadRequest"},
                                                     {401, "Unauthorized"},
                                                     {403, "Forbidden"},
                                                     {405, "MethodNotAllowed"},
                                                     {409, "Conflict"},
                                                     {410, "Gone"},
                                                     {413, "RequestEntityTooLarge"},
                                                     {422, "Invalid"},
                                                     {429, "TooManyRequests"},
                                                     {503, "ServiceUnavailable"},
                                                     {504, "Timeout"}};
  const auto found = reasons.find(status);
  if (found != reasons.end()) return found->second;
  return status >= 500 ? "InternalError" : "Unknown";
}

std::string hint_for(int status, const std::string& message, const Config* config) {
  switch (status) {
    case 401:
      return config == nullptr ? "" : "renew the credentials there, or choose another context with --context";
    case 403:
      return hint_for(why_forbidden(message));
    case 429:
    case 503:
      return "the server is busy or starting: try again in a while";
    default:
      return "";
  }
}

}  // namespace

ApiError unreachable_error(const Failure& failure, const Config& config) {
  if (failure.kind == Failure::Kind::credentials) {
    const std::string& source = config.user_source.empty() ? config.source : config.user_source;
    return ApiError(failure.for_good ? 401 : 0, "NoCredentials",
                    source + ": user \"" + config.user + "\": " + failure.detail, failure.hint);
  }
  const Words words = words_for(failure, config);
  return ApiError(0, "Unreachable", "cannot reach " + config.server + ": " + words.what, words.hint);
}

ApiError status_error(int status, const std::string& body, const std::string& what, const Config* config,
                      Time now) {
  const json answer = json_or_null(body);
  const bool is_status = answer.is_object() && text_of(answer, {"kind"}) == "Status";
  std::string reason = is_status ? text_of(answer, {"reason"}) : "";
  if (reason.empty()) reason = reason_for(status);
  std::string message = is_status ? sentence(text_of(answer, {"message"})) : "";
  if (status == 401 && config != nullptr) {
    message = "the server at " + config->server + " does not accept the credentials of " +
              (config->user.empty() ? "context \"" + config->context + "\", which names no user"
                                    : "user \"" + config->user + "\"") +
              " in " + (config->user_source.empty() ? config->source : config->user_source);
    const LoginView login = login_of(*config);
    if (login.expires && *login.expires < now)
      message += ": " + login.way + ", " + text_of_end(*login.expires, now);
    return ApiError(status, reason, message, hint_for(status, message, config));
  }
  if (message.empty()) {
    message = "the server answers " + std::to_string(status);
    const std::string text = sentence(is_status ? "" : std::string(cut(body, 200)));
    if (!text.empty() && text.front() != '<') message += " (" + text + ")";  // not the HTML page of a proxy
  }
  std::string hint = hint_for(status, message, config);
  if (status == 404 && !is_status && config != nullptr) {
    hint = "is " + config->server + " a Kubernetes API server, and not something in between?";
  }
  return ApiError(status, reason, (what.empty() ? "" : what + ": ") + message, std::move(hint));
}

}  // namespace mlk::kube
