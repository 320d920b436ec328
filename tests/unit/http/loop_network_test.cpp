// Checks the connections of the loop: addresses, offered protocols, number of connections, and the options of
// the sockets.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fcntl.h>
#include <future>
#include <map>
#include <mutex>
#include <netinet/tcp.h>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "cli/http/loop.h"
#include "tests/unit/http/loop_ends.h"
#include "tests/unit/http/offered_protocols.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("http/loop_network");

using namespace mlk::http;
using std::chrono::milliseconds;

TEST_CASE("mlk connects to the address in the URL, but the certificate must be for tls_server_name") {
  const Certificate authority = make_authority("own");
  for (const char* address : {"127.0.0.1", "::1"}) {
    FakeServer server(make_certificate({"server", "DNS:api.example", &authority}));
    std::string host, target;
    server.http->Get(".*", [&](const httplib::Request& request, httplib::Response& response) {
      host = request.get_header_value("Host");
      target = request.target;
      answer(response, 200, "{}");
    });
    std::string url;
    try {
      url = server.listen(address);
    } catch (const std::runtime_error&) {
      MESSAGE("this machine has no " << address);
      continue;
    }
    for (const char* base : {"", "/base"}) {
      Ends ends({.url = url + base, .ca_pem = authority.pem(), .tls_server_name = "api.example"});
      ends.credentials->give("");
      CHECK(ask(*ends.loop, {.path = "/x"}).get().response.status == 200);
      CHECK("https://" + host == url);
      CHECK(target == std::string(base) + "/x");
    }
  }
}

TEST_CASE("the loop refuses a certificate of another name, unless `insecure` is set") {
  const Certificate authority = make_authority("own");
  FakeServer server(make_certificate({"server", "DNS:api.example", &authority}));
  server.http->Get(".*",
                   [](const httplib::Request&, httplib::Response& response) { answer(response, 200, "{}"); });
  const std::string url = server.listen();
  const auto kind = [](ServerAccess access) {
    Ends ends(std::move(access));
    ends.credentials->give("");
    return ask(*ends.loop, {.path = "/a"}).get().failure.kind;
  };
  CHECK(kind({.url = url, .ca_pem = authority.pem()}) == Failure::Kind::host_name);
  CHECK(kind({.url = url, .ca_pem = authority.pem(), .insecure = true}) == Failure::Kind::none);
  CHECK(kind({.url = url}) == Failure::Kind::untrusted);
}

TEST_CASE(
    "if two certificates are refused in turn, the second failure has the fault of the second certificate") {
  const Certificate authority = make_authority("own");
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", nullptr}));
  Ends ends({.url = server.listen(), .ca_pem = authority.pem()});
  ends.credentials->give("");
  CHECK(ask(*ends.loop, {.path = "/a"}).get().failure.kind == Failure::Kind::untrusted);
  const Certificate next = make_certificate({"server", "DNS:api.example", &authority});
  SSL_CTX* const context = dynamic_cast<httplib::SSLServer&>(*server.http).ssl_context();
  REQUIRE(SSL_CTX_use_certificate(context, next.x509.get()) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey(context, next.key.get()) == 1);
  CHECK(ask(*ends.loop, {.path = "/a"}).get().failure.kind == Failure::Kind::host_name);
}

TEST_CASE("a request offers HTTP/2, unless it is a POST and eight or more other requests are in progress") {
  struct Row {
    int others;
    const char* method;
    const char* offered;
  };
  for (const Row& row : std::vector<Row>{{0, "POST", "h2 http/1.1"},
                                         {7, "POST", "h2 http/1.1"},
                                         {8, "POST", "http/1.1"},
                                         {8, "PATCH", "h2 http/1.1"}}) {
    CAPTURE(row.others);
    CAPTURE(row.method);
    std::atomic<int> begun = 0;
    FakeServer server(make_certificate({"server", "IP:127.0.0.1", nullptr}));
    const OfferedProtocols offered(*server.http);
    const auto serve = [](const httplib::Request&, httplib::Response& response) {
      answer(response, 200, "{}");
    };
    server.http->Post(".*", serve);
    server.http->Patch(".*", serve);
    server.http->Get(".*", [&](const httplib::Request&, httplib::Response&) {
      ++begun;
      server.hang();
    });
    Ends ends({.url = server.listen(), .insecure = true});
    ends.credentials->give("");
    std::vector<std::future<Outcome>> others;
    for (int i = 0; i < row.others; ++i) others.push_back(ask(*ends.loop, {.path = "/a"}));
    REQUIRE(eventually([&] { return begun == row.others; }));
    CHECK(ask(*ends.loop, {.method = row.method, .path = "/b", .body = "{}"}).get().response.status == 200);
    CHECK(offered.newest() == row.offered);
    ends.loop->stop();
    server.stopping = true;
  }
}

TEST_CASE("fifty simultaneous requests to a server without TLS use fifty connections") {
  constexpr int many = 50;
  std::atomic<int> begun = 0;
  FakeServer server;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response& response) {
    ++begun;
    while (begun < many && !server.stopping) std::this_thread::sleep_for(milliseconds(5));
    answer(response, 200, "{}");
  });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  std::vector<std::future<Outcome>> all;
  for (int i = 0; i < many; ++i) all.push_back(ask(*ends.loop, {.path = "/a"}));
  CHECK(eventually([&] { return begun == many; }));
  server.stopping = true;
  for (auto& each : all) CHECK(each.get().response.status == 200);
}

TEST_CASE("fifty simultaneous streams to a server that speaks only HTTP/1 use fifty connections") {
  // The server answers only when the loop has made all connections that it may make before it knows the
  // protocol. After that, no event would make libcurl notice the higher limit.
  constexpr int many = 50, at_first = 40;
  std::atomic<int> begun = 0, lines = 0;
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", nullptr}));
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response& response) {
    ++begun;
    while (begun < at_first && !server.stopping) std::this_thread::sleep_for(milliseconds(5));
    response.set_chunked_content_provider("text/plain", [&](std::size_t, httplib::DataSink& sink) {
      sink.write("line\n", 5);
      server.hang();
      return false;
    });
  });
  Ends ends({.url = server.listen(), .insecure = true});
  ends.credentials->give("");
  for (int i = 0; i < many; ++i) {
    auto stream = std::make_shared<Transfer>(Request{.path = "/a"});
    stream->line = [&](std::string_view) { ++lines; };
    ends.loop->add(stream);
  }
  CHECK(eventually([&] { return lines == many; }));
  ends.loop->stop();
}

TEST_CASE(
    "a socket has the options that detect a dead connection, and child processes do not inherit the socket") {
  FakeServer server;
  server.http->Get(".*",
                   [](const httplib::Request&, httplib::Response& response) { answer(response, 200, "{}"); });
  const std::string url = server.listen();
  Peer peer;
  Transfer transfer(Request{.path = "/a"});
  transfer.prepare({.url = url}, std::make_shared<const Credential>(), peer);
  REQUIRE(curl_easy_perform(transfer.easy) == CURLE_OK);
  REQUIRE(peer.sockets.all().size() == 1);
  const int socket = peer.sockets.all().begin()->first;
  const auto option = [&](int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    return ::getsockopt(socket, level, name, &value, &length) == 0 ? value : -1;
  };
  CHECK(option(SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(option(IPPROTO_TCP, TCP_KEEPIDLE) == 20);
  CHECK(option(IPPROTO_TCP, TCP_KEEPINTVL) == 5);
#ifdef TCP_USER_TIMEOUT
  CHECK(option(IPPROTO_TCP, TCP_USER_TIMEOUT) == 30'000);
#endif
  CHECK((::fcntl(socket, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(transfer.socket == peer.sockets.all().begin()->second);
}

TEST_CASE("a check over a new connection shares this connection with no other request") {
  // With 0 other connections, the repeated request could wrongly use the connection of the check. With 2, the
  // check could wrongly use an idle connection.
  for (const int others : {0, 2}) {
    CAPTURE(others);
    std::mutex mutex;
    std::map<std::string, std::vector<int>> ports;  // by path
    std::atomic<int> held = 0, asked = 0;
    FakeServer server;
    server.http->Get(".*", [&](const httplib::Request& request, httplib::Response& response) {
      {
        const std::lock_guard lock(mutex);
        ports[request.path].push_back(request.remote_port);
      }
      if (request.path == "/a" && ++asked == 1) return server.hang();
      if (request.path == "/held") ++held;
      while (request.path == "/held" && held < 2 && !server.stopping)
        std::this_thread::sleep_for(milliseconds(5));
      answer(response, 200, "{}");
    });
    Ends ends({.url = server.listen(),
               .check_path = "/check",
               .silence = {.suspect = milliseconds(400), .leave = milliseconds(600)}});
    ends.credentials->give("");
    std::vector<std::future<Outcome>> before;
    for (int i = 0; i < others; ++i) before.push_back(ask(*ends.loop, {.path = "/held"}));
    for (auto& each : before) CHECK(each.get().response.status == 200);
    CHECK(ask(*ends.loop, {.path = "/a"}).get().response.status == 200);
    ends.loop->stop();
    const std::lock_guard lock(mutex);
    CHECK(ports["/a"].size() == 2);
    REQUIRE_FALSE(ports["/check"].empty());
    for (const int port : ports["/check"]) {
      CHECK(std::count(ports["/held"].begin(), ports["/held"].end(), port) == 0);
      CHECK(std::count(ports["/a"].begin(), ports["/a"].end(), port) == 0);
    }
  }
}

TEST_CASE("proxy_url of ServerAccess has priority over the proxy of the environment") {
  FakeServer proxy;
  std::string host;
  proxy.http->Get(".*", [&](const httplib::Request& request, httplib::Response& response) {
    host = request.get_header_value("Host");
    answer(response, 200, "{}");
  });
  const std::string way = proxy.listen();
  const auto outcome = [](const std::string& proxy_url) {
    Ends ends(
        {.url = "http://no-such-host.invalid", .proxy_url = proxy_url, .longest_trying = milliseconds(0)});
    ends.credentials->give("");
    return ask(*ends.loop, {.path = "/a"}).get();
  };
  ::setenv("HTTP_PROXY", "http://127.0.0.1:1", 1);
  CHECK(outcome(way).response.status == 200);
  CHECK(host == "no-such-host.invalid");
  ::setenv("HTTP_PROXY", way.c_str(), 1);
  CHECK(outcome("").response.status == 200);
  const Failure failure = outcome("http://127.0.0.1:1").failure;
  ::unsetenv("HTTP_PROXY");
  CHECK(failure.kind == Failure::Kind::proxy);
  CHECK(failure.detail == "the proxy 127.0.0.1:1 of proxy-url refuses connections");
  CHECK(failure.hint == "check proxy-url");
}

TEST_CASE("if a proxy wants a login, the failure says this, and the proxy gets no credential of the server") {
  std::string asked;
  const RawServer proxy([&](int, const std::string& request) {
    asked = request;
    return "HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n";
  });
  const std::string way = proxy.config().server;
  Ends ends({.url = "https://no-such-host.invalid", .proxy_url = way, .headers = {{"X-Test", "private"}}});
  ends.credentials->give("Bearer secret");
  const Failure failure = ask(*ends.loop, {.path = "/a"}).get().failure;
  CHECK(failure.kind == Failure::Kind::proxy);
  CHECK(failure.detail == "the proxy " + way.substr(7) + " of proxy-url wants a login (it answers 407)");
  CHECK(asked.starts_with("CONNECT no-such-host.invalid:443 "));
  CHECK(asked.find("secret") == std::string::npos);
  CHECK(asked.find("private") == std::string::npos);
}
