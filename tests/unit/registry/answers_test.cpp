// What the answers of registries mean.
#include "cli/registry/answers.h"

#include <doctest/doctest.h>

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

TEST_CASE("the first error of an answer is told in the registry's own words") {
  CHECK(words_of(R"({"errors":[{"code":"DENIED","message":"no quota"},{"code":"X"}]})") ==
        "DENIED: no quota");
  CHECK(words_of(R"({"errors":[{"code":"DENIED"}]})") == "DENIED");
  CHECK(words_of(R"({"errors":[{"message":"no quota","detail":{}}]})") == "no quota");
}

TEST_CASE("words of any shape are short, and steer no terminal") {
  for (const char* odd : {"", "<html>", "[]", "null", "{}", R"({"errors":[]})", R"({"errors":{}})",
                          R"({"errors":["x"]})", R"({"errors":[{"code":5,"message":[]}]})"})
    CHECK_MESSAGE(words_of(odd).empty(), std::string(odd));
  CHECK(words_of("{\"errors\":[{\"message\":\"a\\u001b[2Jb\"}]}") == "a?[2Jb");
  CHECK(words_of("{\"errors\":[{\"message\":\"" + std::string(5000, 'x') + "\"}]}").size() == 300);
  CHECK(words_of(std::string(10'000, '[')).empty());
}

TEST_CASE("trying again helps against overload and lost connections, and against nothing else") {
  for (const int status : {408, 425, 429, 500, 502, 503, 504}) CHECK(may_pass(answered(status)));
  for (const int status : {200, 201, 301, 307, 400, 401, 403, 404, 405, 409, 416, 501, 505})
    CHECK_FALSE(may_pass(answered(status)));
  using Kind = Failure::Kind;
  for (const Kind kind : {Kind::broken, Kind::timed_out, Kind::no_route, Kind::refused})
    CHECK(may_pass(failed(kind)));
  for (const Kind kind : {Kind::resolve, Kind::untrusted, Kind::expired, Kind::host_name, Kind::tls,
                          Kind::closed, Kind::too_large, Kind::other, Kind::proxy})
    CHECK_FALSE(may_pass(failed(kind)));
}

TEST_CASE("redirects are those with a place to go to") {
  for (const int status : {301, 302, 303, 307, 308}) CHECK(mlk::registry::is_redirect(status));
  for (const int status : {200, 300, 304, 305, 306, 400}) CHECK_FALSE(mlk::registry::is_redirect(status));
}

TEST_CASE("each failure has words for after a colon") {
  using Kind = Failure::Kind;
  CHECK(mlk::registry::describe({.kind = Kind::refused}) == "nothing listens there");
  CHECK(mlk::registry::describe({.kind = Kind::untrusted, .detail = "issuer x"}) ==
        "its certificate is not trusted: issuer x");
  CHECK(mlk::registry::describe({.kind = Kind::other}) == "no answer");
  CHECK(mlk::registry::describe({.kind = Kind::other, .detail = "odd"}) == "odd");
}
