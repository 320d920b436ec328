// Checks how long the loop waits, how often the loop sends requests again, and that no attempt changes the
// next.
#include <atomic>
#include <future>
#include <thread>

#include <doctest/doctest.h>

#include "cli/http/loop.h"
#include "tests/unit/http/loop_ends.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("http/loop_time");

using namespace mlk::http;
using std::chrono::milliseconds;

TEST_CASE("a request does not time out while it waits for a credential") {
  FakeServer server;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response&) { server.hang(); });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  std::future<Outcome> running = ask(*ends.loop, {.path = "/a", .timeout = milliseconds(500)});
  REQUIRE(eventually([&] { return ends.credentials->asked == 1; }));
  ends.credentials->take_away();
  std::future<Outcome> parked = ask(*ends.loop, {.path = "/b", .timeout = milliseconds(1)});
  REQUIRE(eventually([&] { return ends.credentials->asked == 2; }));
  CHECK(running.get().failure.kind == Failure::Kind::timed_out);
  CHECK(ends.credentials->asked == 2);  // the loop waits for news, and does not call next() in each turn
  ends.credentials->fail(mlk::Error(mlk::ExitCode::cluster, "no login"));
  const Failure failure = parked.get().failure;
  CHECK(failure.kind == Failure::Kind::credentials);
  CHECK_FALSE(failure.for_good);  // the next login may succeed
}

TEST_CASE("the timeout of a request begins when its credential comes") {
  FakeServer server;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response&) { server.hang(); });
  Ends ends({.url = server.listen()});
  std::future<Outcome> parked = ask(*ends.loop, {.path = "/a", .timeout = milliseconds(300)});
  REQUIRE(eventually([&] { return ends.credentials->asked == 1; }));
  ends.credentials->give("");
  REQUIRE(parked.wait_for(milliseconds(20'000)) == std::future_status::ready);
  CHECK(parked.get().failure.kind == Failure::Kind::timed_out);
}

TEST_CASE("the loop sleeps while all requests wait for a credential") {
  Ends ends({.url = "http://127.0.0.1:1"});
  std::future<Outcome> parked = ask(*ends.loop, {.path = "/a", .timeout = milliseconds(1)});
  REQUIRE(eventually([&] { return ends.credentials->asked == 1; }));
  std::this_thread::sleep_for(milliseconds(200));  // a loop that does not sleep takes thousands of turns
  CHECK(ends.credentials->turns < 100);
}

TEST_CASE("the failure has `for_good` set if the credential source refuses to give any credential") {
  Ends ends({.url = "http://127.0.0.1:1"});
  ends.credentials->refuse(mlk::Error(mlk::ExitCode::cluster, "no login", "log in"));
  const Failure failure = ask(*ends.loop, {.path = "/a"}).get().failure;
  CHECK(failure.kind == Failure::Kind::credentials);
  CHECK(failure.detail == "no login");
  CHECK(failure.hint == "log in");
  CHECK(failure.for_good);
}

TEST_CASE("all attempts of a request share its timeout") {
  std::atomic<int> count = 0;
  FakeServer server;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response& response) {
    ++count;
    std::this_thread::sleep_for(milliseconds(100));
    response.set_header("Retry-After", "0");
    answer(response, 503, "{}");
  });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  (void)ask(*ends.loop, {.path = "/a", .timeout = milliseconds(250)}).get();
  CHECK(count >= 1);
  CHECK(count <= 3);  // the server needs 100 ms for each attempt
}

TEST_CASE("the timeout of a request does not count the time on a dead connection") {
  std::atomic<int> count = 0;
  FakeServer server;
  server.http->Get("/check",
                   [](const httplib::Request&, httplib::Response& response) { answer(response, 200, "{}"); });
  server.http->Get("/a", [&](const httplib::Request&, httplib::Response& response) {
    if (++count == 1) return server.hang();
    std::this_thread::sleep_for(milliseconds(800));
    answer(response, 200, "{}");
  });
  // The loop abandons the connection after 1100 ms, so 1900 ms pass in total.
  Ends ends({.url = server.listen(),
             .check_path = "/check",
             .silence = {.suspect = milliseconds(1000), .leave = milliseconds(1200)}});
  ends.credentials->give("");
  CHECK(ask(*ends.loop, {.path = "/a", .timeout = milliseconds(1800)}).get().response.status == 200);
  CHECK(count == 2);
}

TEST_CASE("the loop wakes up at the end of the time in Retry-After, and sends the request again") {
  std::atomic<int> count = 0;
  FakeServer server;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response& response) {
    response.set_header("Retry-After", "1");
    answer(response, ++count == 1 ? 503 : 200, "{}");
  });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  CHECK(ask(*ends.loop, {.path = "/a", .timeout = milliseconds(8000)}).get().response.status == 200);
  CHECK(count == 2);
}

TEST_CASE("a POST to a busy server is sent again with its body") {
  std::vector<std::string> bodies;
  FakeServer server;
  server.http->Post(".*", [&](const httplib::Request& request, httplib::Response& response) {
    bodies.push_back(request.body);
    response.set_header("Retry-After", "0");
    answer(response, bodies.size() == 1 ? 503 : 200, "{}");
  });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  const Request request{.method = "POST", .path = "/a", .body = "content"};
  CHECK(ask(*ends.loop, request).get().response.status == 200);
  CHECK(bodies == std::vector<std::string>{"content", "content"});
}

TEST_CASE("the loop sends a request to an unreachable server only once if `longest_trying` is 0") {
  Ends ends({.url = "http://127.0.0.1:1", .longest_trying = milliseconds(0)});
  ends.credentials->give("");
  CHECK(ask(*ends.loop, {.path = "/a"}).get().failure.kind == Failure::Kind::refused);
  CHECK(ends.credentials->asked == 1);
}

TEST_CASE("the response to a repeated request has no part of an earlier answer") {
  std::atomic<int> count = 0;
  FakeServer server;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response& response) {
    const bool first = ++count == 1;
    if (first) response.set_header("Retry-After", "0");
    response.set_header("Warning", first ? "299 - \"first\"" : "299 - \"second\"");
    answer(response, 503, first ? "a longer body" : "{}");
  });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  const Response response = ask(*ends.loop, {.path = "/a"}).get().response;
  CHECK(response.status == 503);
  CHECK(response.body == "{}");
  CHECK(response.warnings == std::vector<std::string>{"second"});
  CHECK(count == 2);  // the earlier Retry-After is gone too
}

TEST_CASE("the loop reports a credential as accepted after every answer except 401") {
  std::atomic<int> status = 0;
  FakeServer server;
  server.http->Get(
      ".*", [&](const httplib::Request&, httplib::Response& response) { answer(response, status, "{}"); });
  const std::string url = server.listen();
  const auto acceptances = [](const std::string& at) {
    Ends ends({.url = at, .longest_trying = milliseconds(0)});
    ends.credentials->give("");
    (void)ask(*ends.loop, {.path = "/a"}).get();
    return ends.credentials->acceptances.load();
  };
  for (const auto& [answered, expected] :
       std::vector<std::pair<int, int>>{{200, 1}, {400, 1}, {402, 1}, {403, 1}, {503, 1}, {401, 0}}) {
    CAPTURE(answered);
    status = answered;
    CHECK(acceptances(url) == expected);
  }
  CHECK(acceptances("http://127.0.0.1:1") == 0);
}

TEST_CASE("the loop reports the credential of a running stream as accepted when another request ends") {
  FakeServer server;
  server.http->Get("/stream", [&](const httplib::Request&, httplib::Response& response) {
    response.set_chunked_content_provider("text/plain", [&](std::size_t, httplib::DataSink& sink) {
      sink.write("line\n", 5);
      server.hang();
      return false;
    });
  });
  server.http->Get("/a",
                   [](const httplib::Request&, httplib::Response& response) { answer(response, 401, "{}"); });
  std::promise<int> opened;
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  auto stream = std::make_shared<Transfer>(Request{.path = "/stream"});
  stream->line = [](std::string_view) {};
  stream->opened = [&](int status) { opened.set_value(status); };
  ends.loop->add(stream);
  CHECK(opened.get_future().get() == 200);
  CHECK(ask(*ends.loop, {.path = "/a"}).get().response.status == 401);
  CHECK(ends.credentials->acceptances == 1);
}

TEST_CASE("a stream opens with its final answer, not with a 1xx answer") {
  const RawServer raw([](int, const std::string&) {
    return "HTTP/1.1 103 Early Hints\r\nX-Early: yes\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
           "4\r\n\r\none\n";
  });
  Ends ends({.url = raw.config().server});
  ends.credentials->give("");
  std::vector<int> opened;
  std::promise<int> ended;
  auto stream = std::make_shared<Transfer>(Request{.path = "/a"});
  stream->line = [](std::string_view) {};
  stream->opened = [&](int status) { opened.push_back(status); };
  stream->done = [&](Response& response, const Failure&) { ended.set_value(response.status); };
  ends.loop->add(stream);
  CHECK(ended.get_future().get() == 200);
  CHECK(opened == std::vector<int>{200});
}

TEST_CASE("a stream may deliver more bytes than `most_held`, because delivered lines are not held") {
  const std::string line(700 << 10, 'x');
  FakeServer server;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response& response) {
    answer(response, 200, line + "\n" + line + "\n" + line + "\n");
  });
  Ends ends({.url = server.listen(), .most_held = 1 << 20});
  ends.credentials->give("");
  std::vector<std::size_t> lines;
  std::promise<Failure> ended;
  auto stream = std::make_shared<Transfer>(Request{.path = "/a"});
  stream->line = [&](std::string_view text) { lines.push_back(text.size()); };
  stream->done = [&](Response&, const Failure& failure) { ended.set_value(failure); };
  ends.loop->add(stream);
  CHECK(ended.get_future().get().kind == Failure::Kind::none);
  CHECK(lines == std::vector<std::size_t>(3, line.size()));
}
