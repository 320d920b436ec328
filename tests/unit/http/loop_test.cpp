// The loop with a source of credentials that the test plays, and no Kubernetes.

#include "cli/http/loop.h"

#include <future>
#include <mutex>

#include <doctest/doctest.h>

#include "tests/unit/kube/fake_server.h"

namespace {

using namespace mlk::http;
using std::chrono::milliseconds;

// Gives what the test has put there; without it transfers wait.
class Played : public CredentialSource {
 public:
  void start(std::function<void()> news) override { news_ = std::move(news); }
  Turn next(SteadyTime) override {
    const std::lock_guard lock(mutex_);
    ++asked;
    return {credential_, {}};
  }
  std::optional<News> take_news() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(told_, std::nullopt);
  }
  bool refused(const CredentialPtr& used, SteadyTime) override {
    const std::lock_guard lock(mutex_);
    return used != credential_;
  }
  void accepted(const CredentialPtr&) override {}
  void stop() override {}

  void give(const std::string& authorization) {
    put(std::make_shared<const Credential>(Credential{authorization, "", ""}), News{});
  }
  void fail(const mlk::Error& error) { put(nullptr, News{error}); }

  std::atomic<int> asked = 0;

 private:
  void put(CredentialPtr credential, News news) {
    {
      const std::lock_guard lock(mutex_);
      credential_ = std::move(credential);
      told_ = std::move(news);
    }
    news_();
  }

  std::function<void()> news_;
  std::mutex mutex_;
  CredentialPtr credential_;
  std::optional<News> told_;
};

struct Outcome {
  Response response;
  Failure failure;
};

std::future<Outcome> ask(Loop& loop, Request request) {
  auto promise = std::make_shared<std::promise<Outcome>>();
  auto transfer = std::make_shared<Transfer>(std::move(request));
  transfer->done = [promise](Response& response, const Failure& failure) {
    promise->set_value({std::move(response), failure});
  };
  loop.add(std::move(transfer));
  return promise->get_future();
}

struct Ends {
  explicit Ends(ServerAccess server) {
    auto source = std::make_unique<Played>();
    credentials = source.get();
    loop = std::make_unique<Loop>(std::move(server), std::move(source));
  }
  Played* credentials;  // of the loop
  std::unique_ptr<Loop> loop;
};

// Over TLS: echoes the header `name` of each request.
struct Echo : FakeServer {
  explicit Echo(const std::string& name) : FakeServer(make_certificate({"server", "IP:127.0.0.1", nullptr})) {
    http->Get(".*", [name](const httplib::Request& request, httplib::Response& response) {
      answer(response, 200, request.get_header_value(name));
    });
  }
  ServerAccess server() { return {.url = listen(), .insecure = true}; }
};

}  // namespace

TEST_CASE("requests wait for a credential, and present it when it comes") {
  Echo echo("Authorization");
  Ends ends(echo.server());
  std::future<Outcome> first = ask(*ends.loop, {.path = "/a"}), second = ask(*ends.loop, {.path = "/b"});
  REQUIRE(eventually([&] { return ends.credentials->asked >= 2; }));
  ends.credentials->give("Bearer one");
  CHECK(first.get().response.body == "Bearer one");
  CHECK(second.get().response.body == "Bearer one");
}

TEST_CASE("the time in which somebody logs in is none of a request's own") {
  Echo echo("Authorization");
  Ends ends(echo.server());
  std::future<Outcome> outcome = ask(*ends.loop, {.path = "/a", .timeout = milliseconds(2000)});
  REQUIRE(eventually([&] { return ends.credentials->asked == 1; }));
  CHECK(outcome.wait_for(milliseconds(2500)) == std::future_status::timeout);
  ends.credentials->give("Bearer one");
  CHECK(outcome.get().response.body == "Bearer one");
}

TEST_CASE("a stream is open when its credential is accepted, and not by the answer that refuses one") {
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", nullptr}));
  Ends ends({.url = server.listen(), .insecure = true});
  server.http->Get(".*", [&](const httplib::Request& request, httplib::Response& response) {
    if (request.get_header_value("Authorization") == "Bearer new") return answer(response, 200, "a line\n");
    ends.credentials->give("Bearer new");
    answer(response, 401, "");
  });
  ends.credentials->give("Bearer old");
  std::promise<int> ended;
  std::vector<int> opened;
  std::string lines;
  auto stream = std::make_shared<Transfer>(Request{.path = "/a"});
  stream->line = [&](std::string_view line) { lines += line; };
  stream->opened = [&](int status) { opened.push_back(status); };
  stream->done = [&](Response& response, const Failure&) { ended.set_value(response.status); };
  ends.loop->add(stream);
  CHECK(ended.get_future().get() == 200);
  CHECK(opened == std::vector<int>{200});
  CHECK(lines.starts_with("a line"));
}

TEST_CASE("requests that wait for a credential fail when none can be made") {
  Ends ends({.url = "https://127.0.0.1:1"});
  std::future<Outcome> outcome = ask(*ends.loop, {.path = "/a"});
  REQUIRE(eventually([&] { return ends.credentials->asked == 1; }));
  ends.credentials->fail(mlk::Error(mlk::ExitCode::cluster, "no login", "log in"));
  const Failure failure = outcome.get().failure;
  CHECK(failure.kind == Failure::Kind::credentials);
  CHECK(failure.detail == "no login");
  CHECK(failure.hint == "log in");
}

TEST_CASE("a request's own headers are sent instead of the server's") {
  Echo echo("X-Test");
  ServerAccess server = echo.server();
  server.headers = {{"X-Test", "the server's"}};
  Ends ends(std::move(server));
  ends.credentials->give("");
  CHECK(ask(*ends.loop, {.path = "/a"}).get().response.body == "the server's");
  CHECK(ask(*ends.loop, {.path = "/a", .headers = {{"X-Test", "its own"}}}).get().response.body == "its own");
}

TEST_CASE("neither credentials nor the server's headers travel without TLS") {
  FakeServer plain;
  plain.http->Get(".*", [](const httplib::Request& request, httplib::Response& response) {
    answer(response, 200, request.get_header_value("Authorization") + request.get_header_value("X-Test"));
  });
  Ends ends({.url = plain.listen(), .headers = {{"X-Test", "x"}}});
  ends.credentials->give("Bearer one");
  CHECK(ask(*ends.loop, {.path = "/a"}).get().response.body.empty());
}

TEST_CASE("warnings are taken out of their quotes, and other codes than 299 are left out") {
  FakeServer server;
  server.http->Get(".*", [](const httplib::Request&, httplib::Response& response) {
    response.headers.emplace("Warning", R"(299 - "say \"this\"")");
    response.headers.emplace("Warning", R"(199 - "not this")");
    response.headers.emplace("Warning", R"(299 mlk "and that" "Tue, 15 Nov 1994 08:12:31 GMT")");
    answer(response, 200, "{}");
  });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  CHECK(ask(*ends.loop, {.path = "/a"}).get().response.warnings ==
        std::vector<std::string>{"say \"this\"", "and that"});
}

TEST_CASE(
    "a busy server that does not say when to come back, or says it in no known form, is not asked again") {
  FakeServer server;
  std::atomic<int> count = 0;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response& response) {
    ++count;
    response.set_header("Retry-After", "soon");
    answer(response, 503, "");
  });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  CHECK(ask(*ends.loop, {.path = "/a"}).get().response.status == 503);
  CHECK(count == 1);
}

TEST_CASE("a loop that has been stopped refuses requests") {
  Ends ends({.url = "http://127.0.0.1:1"});
  ends.loop->stop();
  CHECK(ask(*ends.loop, {.path = "/a"}).get().failure.kind == Failure::Kind::closed);
}
