// Connections that die without a sign: the server keeps them open and answers only on new connections.

#include <future>
#include <map>
#include <mutex>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("kube/dead_connection");

namespace {

using namespace mlk::kube;
using std::chrono::milliseconds;

// A server that never answers the first GET of `deaf_to`, the first PATCH of each path, and every POST.
class Deaf {
 public:
  explicit Deaf(std::string deaf_to) : deaf_to_(std::move(deaf_to)) {
    server_.http->Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      const bool deaf = request.path == deaf_to_ && !told_.exchange(true);
      ++count(request.path);
      if (deaf) return server_.hang();
      answer(response, 200, R"({"kind":"Any","at":")" + request.path + "\"}");
    });
    server_.http->Patch(".*", [this](const httplib::Request& request, httplib::Response& response) {
      if (++count(request.path) == 1) return server_.hang();
      answer(response, 200, "{}");
    });
    server_.http->Post(".*", [this](const httplib::Request& request, httplib::Response&) {
      ++count(request.path);
      server_.hang();
    });
  }
  Config start() {
    Config config = server_.start();
    config.silence = {.suspect = milliseconds(200), .leave = milliseconds(300)};
    return config;
  }
  int asked(const std::string& path) { return count(path); }

 private:
  std::atomic<int>& count(const std::string& path) {
    const std::lock_guard lock(mutex_);
    return counts_[path];
  }
  const std::string deaf_to_;
  std::atomic<bool> told_ = false;
  std::mutex mutex_;
  std::map<std::string, std::atomic<int>> counts_;
  FakeServer server_;
};

}  // namespace

TEST_CASE("a request on a dead connection is sent again over another connection") {
  Deaf server("/x");
  Client client(server.start());
  CHECK(client.send({.path = "/x"}).body.find("/x") != std::string::npos);
  CHECK(server.asked("/x") == 2);
  CHECK(server.asked("/version") >= 1);
}

TEST_CASE("after a dead connection, a client repeats a patch only if applying the patch twice does no harm") {
  Deaf server("");
  Client client(server.start());
  client.patch(resources::pods, "n", "x", {{"metadata", {{"labels", {{"a", "b"}}}}}});
  CHECK(server.asked("/api/v1/namespaces/n/pods/x") == 2);
  const nlohmann::json versioned = {{"metadata", {{"resourceVersion", "7"}}}};
  CHECK_THROWS_AS(client.patch(resources::pods, "n", "y", versioned), ApiError);
  CHECK(server.asked("/api/v1/namespaces/n/pods/y") == 1);
  CHECK_THROWS_AS(client.create(resources::pods, "n", {{"metadata", {{"name", "z"}}}}), ApiError);
  CHECK(server.asked("/api/v1/namespaces/n/pods") == 1);
}

TEST_CASE(
    "the end of a stream over a dead connection is marked as silent, so that the next stream may start at "
    "once") {
  Deaf server("/log");
  Client client(server.start());
  std::promise<StreamEnd> ended;
  const auto stream = client.stream(
      {.path = "/log", .timeout = milliseconds(0)}, [](std::string_view) {},
      [&](StreamEnd end) { ended.set_value(std::move(end)); });
  const StreamEnd end = ended.get_future().get();
  CHECK(end.status == 0);
  CHECK(end.silent);
}

TEST_CASE("a client keeps a silent connection until a check over another connection gets an answer") {
  FakeServer server;
  std::atomic<bool> up = false;
  std::atomic<int> checks = 0, logs = 0;
  server.http->Get("/version", [&](const httplib::Request&, httplib::Response& response) {
    ++checks;
    if (!up) return server.hang();
    answer(response, 200, "{}");
  });
  server.http->Get("/log", [&](const httplib::Request&, httplib::Response&) {
    ++logs;
    server.hang();
  });
  Config config = server.start();
  config.silence = {.suspect = milliseconds(100), .leave = milliseconds(200)};
  Client client(config);
  std::atomic<bool> over = false;
  const auto stream = client.stream(
      {.path = "/log", .timeout = milliseconds(0)}, [](std::string_view) {},
      [&](const StreamEnd&) { over = true; });
  REQUIRE(eventually([&] { return checks >= 3; }));  // each check starts after the previous check has failed
  CHECK_FALSE(over);
  up = true;
  CHECK(eventually([&] { return over.load(); }));
  CHECK(logs == 1);
}
