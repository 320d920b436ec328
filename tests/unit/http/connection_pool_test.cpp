// Checks connections that exchanges of several threads share, with servers that speak HTTP/1. For a server
// with HTTP/2 see tests/e2e/test_far_registries.py.
#include "cli/http/connection_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "cli/http/connection.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("http/connection_pool");

using mlk::http::Connection;
using mlk::http::ConnectionPool;
using mlk::http::Failure;

TEST_CASE("exchanges of many threads each get their own answer") {
  FakeServer server;
  server.http->Post(".*", [](const httplib::Request& request, httplib::Response& response) {
    response.set_content(request.target + " " + request.body, "text/plain");
  });
  const std::string url = server.listen();
  const auto pool = std::make_shared<ConnectionPool>();
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 40; ++i) {
    threads.emplace_back([&, own = std::to_string(i)] {
      Connection connection({.pool = pool});
      for (int turn = 0; turn < 10; ++turn) {
        const std::string body(1 + 1000 * turn, 'x');
        const auto reply = connection.exchange({.method = "POST", .url = url + "/" + own, .body = body});
        if (reply.ok() && reply.body == "/" + own + " " + body) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 400);
}

TEST_CASE("a pool uses a connection again after the Connection object of the first exchange is gone") {
  FakeServer server;
  std::vector<int> ports;
  server.http->Get(".*", [&](const httplib::Request& request, httplib::Response&) {
    ports.push_back(request.remote_port);
  });
  const std::string url = server.listen();
  const auto pool = std::make_shared<ConnectionPool>();
  for (int i = 0; i < 3; ++i) CHECK(Connection({.pool = pool}).exchange({.url = url}).ok());
  CHECK(ports == std::vector<int>(3, ports.at(0)));
}

TEST_CASE("an exchange that hangs or fails does not affect other exchanges of its pool") {
  FakeServer server;
  server.http->Get("/hangs", [&](const httplib::Request&, httplib::Response&) { server.hang(); });
  server.http->Get("/answers", [](const httplib::Request&, httplib::Response&) {});
  const std::string url = server.listen();
  const auto pool = std::make_shared<ConnectionPool>();
  std::atomic<bool> go_on = true, begun = false;
  std::thread hanging([&] {
    Connection connection({.go_on =
                               [&] {
                                 begun = true;
                                 return go_on.load();
                               },
                           .pool = pool});
    CHECK(connection.exchange({.url = url + "/hangs"}).failure.kind == Failure::Kind::closed);
  });
  while (!begun) std::this_thread::yield();
  Connection connection({.pool = pool});
  CHECK(connection.exchange({.url = "http://127.0.0.1:1"}).failure.kind == Failure::Kind::refused);
  CHECK(connection.exchange({.url = url + "/answers"}).ok());
  go_on = false;
  hanging.join();
}

TEST_CASE("a pool opens at most thirty-two connections at the same time to a server of HTTP/1") {
  constexpr int most = 32, many = 40;
  std::mutex mutex;
  int now = 0, reached = 0;
  FakeServer server;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response&) {
    {
      const std::lock_guard lock(mutex);
      reached = std::max(reached, ++now);
    }
    server.hang();
    const std::lock_guard lock(mutex);
    --now;
  });
  const std::string url = server.listen();
  const auto pool = std::make_shared<ConnectionPool>();
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < many; ++i) {
    threads.emplace_back([&] {
      if (Connection({.pool = pool}).exchange({.url = url}).ok()) ++good;
    });
  }
  CHECK(eventually([&] {
    const std::lock_guard lock(mutex);
    return reached >= most;
  }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough time for one more connection
  server.stopping = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(good == many);
  CHECK(reached == most);
}

TEST_CASE("an exchange of a pool calls `go_on` many times a second while the server sends nothing") {
  FakeServer server;
  server.http->Get("/", [&](const httplib::Request&, httplib::Response&) { server.hang(); });
  const std::string url = server.listen();
  std::atomic<int> looks = 0;
  std::atomic<bool> go_on = true;
  std::thread hanging([&] {
    Connection connection({.go_on =
                               [&] {
                                 ++looks;
                                 return go_on.load();
                               },
                           .pool = std::make_shared<ConnectionPool>()});
    CHECK(connection.exchange({.url = url}).failure.kind == Failure::Kind::closed);
  });
  CHECK(eventually([&] { return looks >= 30; }));  // without the pool, libcurl calls go_on once a second
  go_on = false;
  hanging.join();
}

TEST_CASE("an unused pool can be destroyed") { const ConnectionPool pool; }
