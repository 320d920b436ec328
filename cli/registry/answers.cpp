#include "cli/registry/answers.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::registry {

using http::Failure;
using nlohmann::json;

std::string describe(const http::Failure& failure) {
  using Kind = Failure::Kind;
  switch (failure.kind) {
    case Kind::refused:
      return "nothing listens there";
    case Kind::resolve:
      return "there is no such host";
    case Kind::untrusted:
      return "its certificate is not trusted: " + failure.detail;
    case Kind::authority:
      return "the certificates of its authorities cannot be used: " + failure.detail;
    case Kind::expired:
      return "its certificate: " + failure.detail;
    case Kind::host_name:
      return "its certificate is for another name";
    case Kind::handshake:
      return "the connection ended within the TLS handshake";
    case Kind::broken:
      return "the connection ended before the answer did";
    default:
      return failure.detail.empty() ? "no answer" : failure.detail;
  }
}

std::string words_of(const std::string& body) {
  constexpr std::size_t longest = 300;
  const json answer = json_or_null(body, {.depth = 20, .values = 10'000});
  const json& errors = at_path(answer, {"errors"});
  if (!errors.is_array() || errors.empty() || !errors[0].is_object()) return "";
  const std::string code = text_of(errors[0], {"code"}), message = text_of(errors[0], {"message"});
  const std::string both = code.empty() || message.empty() ? code + message : code + ": " + message;
  return printable(cut(both, longest));
}

bool may_pass(const http::Reply& reply) {
  using Kind = Failure::Kind;
  static constexpr std::array temporary_statuses{408, 425, 429, 500, 502, 503, 504};
  static constexpr std::array temporary_failures{Kind::broken, Kind::handshake, Kind::timed_out,
                                                 Kind::no_route, Kind::refused};
  const auto is_one_of = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  return reply.failure.kind == Kind::none ? is_one_of(temporary_statuses, reply.status)
                                          : is_one_of(temporary_failures, reply.failure.kind);
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace mlk::registry
