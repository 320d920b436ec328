// Checks the connections of single exchanges: the proxy, the offered protocols, and the faults that mlk finds
// in a server's certificate.
#include <arpa/inet.h>
#include <cstdlib>
#include <netinet/in.h>
#include <sys/socket.h>

#include <doctest/doctest.h>

#include "cli/http/connection.h"
#include "cli/http/connection_pool.h"
#include "tests/unit/http/offered_protocols.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("http/connection_network");

namespace {

using mlk::http::Connection;
using mlk::http::ConnectionPool;
using mlk::http::Failure;
using mlk::http::Reply;

void answer_everything(FakeServer& server) {
  server.http->Get(
      ".*", [](const httplib::Request&, httplib::Response& response) { answer(response, 200, "content"); });
}

// Our socket that is connected to this port; -1 if there is none.
int socket_to(int port) {
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && peer.sin_family == AF_INET &&
        ntohs(peer.sin_port) == port)
      return fd;
  }
  return -1;
}

}  // namespace

TEST_CASE("an exchange uses the proxy of the environment, and a failure at this proxy names the proxy") {
  FakeServer proxy;
  answer_everything(proxy);
  const std::string way = proxy.listen();
  const auto reply = [](const char* name, const std::string& value, const char* url) {
    ::setenv(name, value.c_str(), 1);
    Connection connection({});
    ::unsetenv(name);
    return connection.exchange({.url = url});
  };
  CHECK(reply("HTTP_PROXY", way, "http://no-such-host.invalid/").body == "content");
  const Failure failure = reply("HTTP_PROXY", "http://127.0.0.1:1", "http://no-such-host.invalid/").failure;
  CHECK(failure.kind == Failure::Kind::proxy);
  CHECK(failure.detail == "the proxy 127.0.0.1:1 of HTTP_PROXY refuses connections");
  const RawServer refusing(
      [](int, const std::string&) { return "HTTP/1.1 403 No\r\nX-Proxy: yes\r\nContent-Length: 0\r\n\r\n"; });
  const std::string address = refusing.config().server;
  const Reply refused = reply("HTTPS_PROXY", address, "https://no-such-host.invalid/");
  CHECK(refused.failure.kind == Failure::Kind::proxy);
  CHECK(refused.failure.detail ==
        "the proxy " + address.substr(7) + " of HTTPS_PROXY does not let us through (it answers 403)");
  CHECK(refused.headers.empty());  // headers of the proxy are left out
  CHECK(refused.status == 0);
}

TEST_CASE("a Connection reports the right fault for each of two refused certificates") {
  const Certificate authority = make_authority("own");
  FakeServer unknown(make_certificate({"server", "IP:127.0.0.1", nullptr}));
  FakeServer misnamed(make_certificate({"server", "DNS:api.example", &authority}));
  answer_everything(unknown);
  answer_everything(misnamed);
  const std::string unknown_url = unknown.listen(), misnamed_url = misnamed.listen();
  Connection connection({.ca_pem = authority.pem()});
  CHECK(connection.exchange({.url = unknown_url}).failure.kind == Failure::Kind::untrusted);
  CHECK(connection.exchange({.url = misnamed_url}).failure.kind == Failure::Kind::host_name);
  CHECK(Connection({.insecure = true}).exchange({.url = misnamed_url}).ok());
}

TEST_CASE("exchanges of a pool offer HTTP/2, and other exchanges do not") {
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", nullptr}));
  const OfferedProtocols offered(*server.http);
  answer_everything(server);
  const std::string url = server.listen();
  CHECK(Connection({.insecure = true}).exchange({.url = url}).ok());
  CHECK(offered.newest() == "http/1.1");
  CHECK(
      Connection({.insecure = true, .pool = std::make_shared<ConnectionPool>()}).exchange({.url = url}).ok());
  CHECK(offered.newest() == "h2 http/1.1");
}

TEST_CASE("a Connection uses TCP keep-alive") {
  FakeServer server;
  answer_everything(server);
  const std::string url = server.listen();
  Connection connection({});
  REQUIRE(connection.exchange({.url = url}).ok());
  const int socket = socket_to(std::stoi(url.substr(url.rfind(':') + 1)));
  REQUIRE(socket >= 0);
  int value = -1;
  socklen_t length = sizeof value;
  REQUIRE(::getsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &value, &length) == 0);
  CHECK(value == 1);
}

TEST_CASE("if `take` returns false, the detail of the failure says that the exchange was ended") {
  FakeServer server;
  answer_everything(server);
  Connection connection({});
  CHECK(connection.exchange({.url = server.listen(), .take = [](std::string_view) { return false; }})
            .failure.detail == "it was ended");
}
