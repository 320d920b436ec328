// Checks how mlk interprets the answers of registries.
#include "cli/registry/answers.h"

#include <utility>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("registry/answers");

namespace {

using mlk::http::Failure;
using mlk::http::Reply;
using mlk::registry::may_pass;
using mlk::registry::words_of;

Reply answered(int status) {
  Reply out;
  out.status = status;
  return out;
}

Reply failed(Failure::Kind kind) {
  Reply out = answered(200);
  out.failure.kind = kind;
  return out;
}

}  // namespace

TEST_CASE("words_of() gives the first error of an answer in the registry's own words") {
  CHECK(words_of(R"({"errors":[{"code":"DENIED","message":"no quota"},{"code":"X"}]})") ==
        "DENIED: no quota");
  CHECK(words_of(R"({"errors":[{"code":"DENIED"}]})") == "DENIED");
  CHECK(words_of(R"({"errors":[{"message":"no quota","detail":{}}]})") == "no quota");
  CHECK(words_of(R"({"errors":[{"code":"DENIED","message":""}]})") == "DENIED");
  CHECK(words_of(R"({"errors":[{"code":"","message":"no quota"}]})") == "no quota");
  CHECK(words_of(R"({"errors":[{"code":"DENIED","message":7}]})") == "DENIED");
}

TEST_CASE("words_of() ignores malformed errors, and returns a short text without control characters") {
  for (const char* odd : {"", "<html>", "[]", "null", "{}", R"({"errors":[]})", R"({"errors":{}})",
                          R"({"errors":["x"]})", R"({"errors":["x",{"code":"DENIED"}]})",
                          R"([{"code":"DENIED"}])", R"({"errors":[{"code":5,"message":[]}]})"})
    CHECK_MESSAGE(words_of(odd).empty(), std::string(odd));
  CHECK(words_of("{\"errors\":[{\"message\":\"a\\u001b[2Jb\"}]}") == "a?[2Jb");
  CHECK(words_of("{\"errors\":[{\"message\":\"" + std::string(5000, 'x') + "\"}]}").size() == 300);
  CHECK(words_of(std::string(10'000, '[')).empty());
  for (const std::size_t size : {299, 300})
    CHECK(words_of("{\"errors\":[{\"message\":\"" + std::string(size, 'x') + "\"}]}") ==
          std::string(size, 'x'));
}

TEST_CASE("words_of() is empty for an answer that is nested deeply or has very many values") {
  const auto with_detail = [](const std::string& detail) {
    return words_of(R"({"errors":[{"code":"DENIED","detail":)" + detail + "}]}");
  };
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  CHECK(with_detail(nested(17)) == "DENIED");  // twenty levels in total
  CHECK(with_detail(nested(18)).empty());
  const auto values = [](int count) {
    std::string out = "[0";
    for (int i = 1; i < count; ++i) out += ",0";
    return out + "]";
  };
  CHECK(with_detail(values(9'900)) == "DENIED");
  CHECK(with_detail(values(10'100)).empty());
}

TEST_CASE("may_pass() is true for a temporary status, and if a connection is refused, breaks or times out") {
  for (const int status : {408, 425, 429, 500, 502, 503, 504}) CHECK(may_pass(answered(status)));
  for (const int status : {0,   200, 201, 301, 307, 400, 401, 403, 404, 405, 407, 409,
                           416, 424, 426, 428, 430, 431, 499, 501, 505, 506, 507, 599})
    CHECK_FALSE(may_pass(answered(status)));
  using Kind = Failure::Kind;
  for (const Kind kind : {Kind::broken, Kind::handshake, Kind::timed_out, Kind::no_route, Kind::refused})
    CHECK(may_pass(failed(kind)));
  for (const Kind kind : {Kind::resolve, Kind::untrusted, Kind::expired, Kind::host_name, Kind::tls,
                          Kind::closed, Kind::too_large, Kind::other, Kind::proxy, Kind::authority,
                          Kind::client_certificate, Kind::credentials}) {
    Reply reply = failed(kind);
    CHECK_FALSE(may_pass(reply));
    reply.status = 503;  // the status of an incomplete answer
    CHECK_FALSE(may_pass(reply));
  }
}

TEST_CASE("is_redirect() is true for 301, 302, 303, 307 and 308 only") {
  for (const int status : {301, 302, 303, 307, 308}) CHECK(mlk::registry::is_redirect(status));
  for (const int status : {0, 200, 300, 304, 305, 306, 309, 400})
    CHECK_FALSE(mlk::registry::is_redirect(status));
}

TEST_CASE("describe() has a text for each kind of failure") {
  using Kind = Failure::Kind;
  const std::vector<std::pair<Kind, const char*>> words{
      {Kind::refused, "nothing listens there"},
      {Kind::resolve, "there is no such host"},
      {Kind::untrusted, "its certificate is not trusted: issuer x"},
      {Kind::authority, "the certificates of its authorities cannot be used: issuer x"},
      {Kind::expired, "its certificate: issuer x"},
      {Kind::host_name, "its certificate is for another name"},
      {Kind::handshake, "the connection ended within the TLS handshake"},
      {Kind::broken, "the connection ended before the answer did"},
      {Kind::tls, "issuer x"},
      {Kind::timed_out, "issuer x"}};
  for (const auto& [kind, said] : words)
    CHECK(mlk::registry::describe({.kind = kind, .detail = "issuer x"}) == said);
  CHECK(mlk::registry::describe({.kind = Kind::other}) == "no answer");
  CHECK(mlk::registry::describe({.kind = Kind::other, .detail = "odd"}) == "odd");
}
