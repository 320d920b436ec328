// The errors for missing answers and for bad answers: a row for each cause.
#include "cli/kube/failure.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("kube/failure");

namespace mlk::kube {
namespace {

using Kind = Failure::Kind;

Config some_config() {
  Config config;
  config.server = "https://api.example:6443";
  config.source = "/f";
  config.context = "c";
  config.user = "me";
  config.user_source = "/g";
  return config;
}

std::string told(const ApiError& error) {
  return std::to_string(error.status()) + " " + error.reason() + " | " + error.what() + " | " + error.hint();
}

TEST_CASE("each cause of a missing answer has its own message and hint") {
  struct Row {
    Kind kind;
    const char* what;
    const char* hint;
  };
  const Row rows[] = {
      {Kind::resolve, "no such host", "check your network or VPN, and the server in /f (context c)"},
      {Kind::proxy, "D", "H"},
      {Kind::refused, "connection refused",
       "is the cluster running? the server's address is from /f (context c)"},
      {Kind::no_route, "D", "check your network or VPN, and the server in /f (context c)"},
      {Kind::timed_out, "D", "check your network or VPN; the server's address is from /f (context c)"},
      {Kind::untrusted, "its certificate is signed by an unknown authority (D)",
       "certificate-authority in /f (context c) is not of this cluster, or is missing"},
      {Kind::expired, "its certificate is not valid now: D",
       "check this machine's clock; otherwise the cluster's operators must renew it"},
      {Kind::host_name, "its certificate is for another name: D",
       "check server and tls-server-name in /f (context c)"},
      {Kind::authority, "this machine's list of certificate authorities cannot be read: D",
       "install the package ca-certificates, or set certificate-authority in /f (context c)"},
      {Kind::client_certificate, "certificate or key of user \"me\" cannot be used: D",
       "look at the entry in /g"},
      {Kind::tls, "no TLS connection: D", "check the server in /f (context c)"},
      {Kind::handshake, "the connection ended within the TLS handshake",
       "is the cluster starting? the server's address is from /f (context c)"},
      {Kind::silent, "nothing came over the connection, while another one was answered", ""},
      {Kind::broken, "the connection broke: D", ""},
      {Kind::too_large, "its answer is too large: D", ""},
      {Kind::closed, "the client was closed", ""},
      {Kind::other, "D", ""},
  };
  for (const Row& row : rows) {
    const Failure failure{.kind = row.kind, .detail = "D", .hint = "H"};
    CHECK(told(unreachable_error(failure, some_config())) ==
          std::string("0 Unreachable | cannot reach https://api.example:6443: ") + row.what + " | " +
              row.hint);
  }
}

TEST_CASE("the error for an unusable certificate-authority names this field and the kubeconfig") {
  Config config = some_config();
  config.ca_pem = "no certificate";
  CHECK(told(unreachable_error({.kind = Kind::authority, .detail = "D"}, config)) ==
        "0 Unreachable | cannot reach https://api.example:6443: certificate-authority of the cluster cannot "
        "be used: D | it must be in PEM in /f (context c); `kubectl config view` omits it without --raw");
}

TEST_CASE("unreachable_error() leaves out details that are unknown") {
  CHECK(std::string(unreachable_error({.kind = Kind::broken}, some_config()).what()) ==
        "cannot reach https://api.example:6443: the connection broke");
  CHECK(std::string(unreachable_error({.kind = Kind::other}, some_config()).what()) ==
        "cannot reach https://api.example:6443: no answer");
  Config config = some_config();
  config.context.clear();
  CHECK(unreachable_error({.kind = Kind::tls}, config).hint() == "check the server in /f");
  config.source.clear();
  CHECK(unreachable_error({.kind = Kind::tls}, config).hint() == "check the server in the configuration");
  config = some_config();
  config.user_source.clear();
  CHECK(unreachable_error({.kind = Kind::client_certificate}, config).hint() ==
        "look at the entry in /f (context c)");
  config.proxy_url = "http://p:1";
  CHECK(unreachable_error({.kind = Kind::proxy, .hint = "H"}, config).hint() == "H in /f (context c)");
}

TEST_CASE(
    "missing credentials give the status 401 if the failure is `for_good`, and otherwise the status 0") {
  Failure failure{.kind = Kind::credentials, .detail = "D", .hint = "H"};
  CHECK(told(unreachable_error(failure, some_config())) == "0 NoCredentials | /g: user \"me\": D | H");
  failure.for_good = true;
  CHECK(told(unreachable_error(failure, some_config())) == "401 NoCredentials | /g: user \"me\": D | H");
  Config config = some_config();
  config.user_source.clear();
  CHECK(std::string(unreachable_error(failure, config).what()) == "/f: user \"me\": D");
}

TEST_CASE("status_error() finds reason and hint by the status number if the answer has no Status") {
  struct Row {
    int status;
    const char* reason;
    const char* hint;
  };
  const char* const busy = "the server is busy or starting: try again in a while";
  const Row rows[] = {{400, "BadRequest", ""},
                      {402, "Unknown", ""},
                      {403, "Forbidden",
                       "ask the cluster's operators for the permission, or choose another namespace with -n"},
                      {405, "MethodNotAllowed", ""},
                      {409, "Conflict", ""},
                      {410, "Gone", ""},
                      {413, "RequestEntityTooLarge", ""},
                      {422, "Invalid", ""},
                      {429, "TooManyRequests", busy},
                      {499, "Unknown", ""},
                      {500, "InternalError", ""},
                      {503, "ServiceUnavailable", busy},
                      {504, "Timeout", ""},
                      {505, "InternalError", ""}};
  for (const Row& row : rows) {
    const Config config = some_config();
    CHECK(told(status_error(row.status, "", "pods in namespace x", &config)) ==
          std::to_string(row.status) + " " + row.reason + " | pods in namespace x: the server answers " +
              std::to_string(row.status) + " | " + row.hint);
  }
}

TEST_CASE("the error for refused credentials names user and kubeconfig, or the context if there is no user") {
  Config config = some_config();
  const std::string hint = "renew the credentials there, or choose another context with --context";
  CHECK(told(status_error(401, "", "x", &config)) ==
        "401 Unauthorized | the server at https://api.example:6443 does not accept the credentials of user "
        "\"me\" in /g | " +
            hint);
  config.user.clear();
  config.user_source.clear();
  CHECK(std::string(status_error(401, "", "x", &config).what()) ==
        "the server at https://api.example:6443 does not accept the credentials of context \"c\", which "
        "names no user in /f");
  CHECK(told(status_error(401, "", "x", nullptr)) == "401 Unauthorized | x: the server answers 401 | ");
}

TEST_CASE("status_error() has the reason NotFound for a 404 only if the body is a Status") {
  const Config config = some_config();
  CHECK(
      told(status_error(404, R"({"kind": "Status", "reason": "NotFound", "message": "pods \"a\" not found"})",
                        "", &config)) == "404 NotFound | pods \"a\" not found | ");
  CHECK(told(status_error(404, "nothing here", "", &config)) ==
        "404 Unknown | the server answers 404 (nothing here) | is https://api.example:6443 a Kubernetes API "
        "server, and not something in between?");
  CHECK(status_error(404, "nothing here", "", nullptr).hint().empty());
}

TEST_CASE("an error shows the server's text as one printable line of limited length, but no HTML page") {
  const auto message = [](const std::string& body) {
    return std::string(status_error(500, body, "", nullptr).what());
  };
  CHECK(message("<html>oops</html>") == "the server answers 500");
  CHECK(message("oops\nagain\t.") == "the server answers 500 (oops again .)");
  CHECK(message(R"({"kind": "Other", "message": "m"})") ==
        R"(the server answers 500 ({"kind": "Other", "message": "m"}))");
  CHECK(message(std::string(300, 'x')) == "the server answers 500 (" + std::string(200, 'x') + ")");
  const auto said = [&](const std::string& text) {
    return message(R"({"kind": "Status", "message": ")" + text + "\"}");
  };
  CHECK(said(std::string(600, 'x')) == std::string(600, 'x'));
  CHECK(said(std::string(601, 'x')) == std::string(600, 'x') + "...");
  CHECK(said("") == "the server answers 500");
  CHECK(status_error(500, R"({"kind": "Status", "reason": "Odd", "message": 7})", "", nullptr).reason() ==
        "Odd");
}

TEST_CASE("status_error() derives the reason and the message from the status number if a Status lacks them") {
  CHECK(status_error(409, R"({"kind": "Status"})", "", nullptr).reason() == "Conflict");
  CHECK(std::string(status_error(409, R"({"kind": "Status", "message": " \n "})", "x", nullptr).what()) ==
        "x: the server answers 409");
  CHECK(status_error(409, R"(["Status"])", "", nullptr).reason() == "Conflict");
  const ApiError started =
      status_error(503, R"({"kind": "Status", "reason": "Odd", "message": "m"})", "x", nullptr);
  CHECK(told(started) == "503 Odd | x: m | the server is busy or starting: try again in a while");
}

TEST_CASE("may_pass() is true for 0 (no answer), for 429 and for statuses from 500 on") {
  const std::pair<int, bool> rows[] = {{0, true},    {200, false}, {404, false}, {428, false}, {429, true},
                                       {430, false}, {499, false}, {500, true},  {503, true}};
  for (const auto& [status, passes] : rows) CHECK_MESSAGE(may_pass(status) == passes, status);
}

}  // namespace
}  // namespace mlk::kube
