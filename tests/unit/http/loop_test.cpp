// Checks the loop with a source of credentials that the test plays, and without Kubernetes.

#include "cli/http/loop.h"

#include <algorithm>
#include <future>

#include <doctest/doctest.h>

#include "tests/unit/http/loop_ends.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("http/loop");

namespace {

using namespace mlk::http;
using std::chrono::milliseconds;

// A server with TLS that answers with the value of the header `name` of the request.
struct Echo : FakeServer {
  explicit Echo(const std::string& name) : FakeServer(make_certificate({"server", "IP:127.0.0.1", nullptr})) {
    http->Get(".*", [name](const httplib::Request& request, httplib::Response& response) {
      answer(response, 200, request.get_header_value(name));
    });
  }
  ServerAccess server() { return {.url = listen(), .insecure = true}; }
};

}  // namespace

TEST_CASE("requests wait until the credential source has a credential, and then send this credential") {
  Echo echo("Authorization");
  Ends ends(echo.server());
  std::future<Outcome> first = ask(*ends.loop, {.path = "/a"}), second = ask(*ends.loop, {.path = "/b"});
  REQUIRE(eventually([&] { return ends.credentials->asked >= 2; }));
  ends.credentials->give("Bearer one");
  CHECK(first.get().response.body == "Bearer one");
  CHECK(second.get().response.body == "Bearer one");
}

TEST_CASE("the wait for a credential does not count against the timeout of a request") {
  Echo echo("Authorization");
  Ends ends(echo.server());
  std::future<Outcome> outcome = ask(*ends.loop, {.path = "/a", .timeout = milliseconds(2000)});
  REQUIRE(eventually([&] { return ends.credentials->asked == 1; }));
  CHECK(outcome.wait_for(milliseconds(2500)) == std::future_status::timeout);
  ends.credentials->give("Bearer one");
  CHECK(outcome.get().response.body == "Bearer one");
}

TEST_CASE("a stream does not open with a 401 answer, but with the answer to the next credential") {
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

TEST_CASE("requests that wait for a credential fail if the credential source reports an error") {
  Ends ends({.url = "https://127.0.0.1:1"});
  std::future<Outcome> outcome = ask(*ends.loop, {.path = "/a"});
  REQUIRE(eventually([&] { return ends.credentials->asked == 1; }));
  ends.credentials->fail(mlk::Error(mlk::ExitCode::cluster, "no login", "log in"));
  const Failure failure = outcome.get().failure;
  CHECK(failure.kind == Failure::Kind::credentials);
  CHECK(failure.detail == "no login");
  CHECK(failure.hint == "log in");
}

TEST_CASE("a request with headers of its own is sent without the headers of ServerAccess") {
  Echo echo("X-Test");
  ServerAccess server = echo.server();
  server.headers = {{"X-Test", "the server's"}};
  Ends ends(std::move(server));
  ends.credentials->give("");
  CHECK(ask(*ends.loop, {.path = "/a"}).get().response.body == "the server's");
  CHECK(ask(*ends.loop, {.path = "/a", .headers = {{"X-Test", "its own"}}}).get().response.body == "its own");
}

TEST_CASE("the loop sends no credential and no headers of ServerAccess if the server has no TLS") {
  FakeServer plain;
  plain.http->Get(".*", [](const httplib::Request& request, httplib::Response& response) {
    answer(response, 200, request.get_header_value("Authorization") + request.get_header_value("X-Test"));
  });
  Ends ends({.url = plain.listen(), .headers = {{"X-Test", "x"}}});
  ends.credentials->give("Bearer one");
  CHECK(ask(*ends.loop, {.path = "/a"}).get().response.body.empty());
}

TEST_CASE("a response has the unquoted texts of warnings with the code 299, and no other warnings") {
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

TEST_CASE("the loop does not repeat a request to a busy server if Retry-After is not a number") {
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

TEST_CASE("a request is sent with its query, headers and body, and without parts that are empty") {
  FakeServer plain;
  std::vector<httplib::Request> asked;
  const auto serve = [&](const httplib::Request& request, httplib::Response& response) {
    asked.push_back(request);
    answer(response, 200, "{}");
  };
  plain.http->Get(".*", serve);
  plain.http->Post(".*", serve);
  plain.http->Patch(".*", serve);
  plain.http->Delete(".*", serve);
  const std::string url = plain.listen();
  Ends ends({.url = url + "/base"});
  ends.credentials->give("");
  const auto sent = [&](Request request) {
    CHECK(ask(*ends.loop, std::move(request)).get().response.status == 200);
    return asked.back();
  };
  httplib::Request got = sent({.path = "/a%2Fb", .query = {{"x", "1 2"}, {"y&", "="}}});
  CHECK(got.target == "/base/a%2Fb?x=1%202&y%26=%3D");
  CHECK(got.get_header_value("Accept") == "application/json");
  CHECK(got.get_header_value("User-Agent") == "mlk");
  CHECK(got.get_header_value("Accept-Encoding") == "gzip");
  CHECK_FALSE(got.has_header("Content-Type"));
  got = sent({.path = "/a?x=1", .query = {{"y", "2"}}, .body = "not sent", .accept = "text/x"});
  CHECK(got.target == "/base/a?x=1&y=2");
  CHECK(got.get_header_value("Accept") == "text/x");
  CHECK(got.body.empty());
  got = sent({.method = "POST", .path = "/a", .body = "{}"});
  CHECK(got.body == "{}");
  CHECK(got.get_header_value("Content-Type") == "application/json");
  CHECK_FALSE(got.has_header("Expect"));
  got = sent({.method = "POST", .path = "/a"});
  CHECK(got.method == "POST");
  CHECK(got.body.empty());
  CHECK(got.get_header_value("Content-Length") == "0");
  got = sent({.method = "PATCH", .path = "/a", .body = "p", .content_type = "text/x"});
  CHECK(got.method == "PATCH");
  CHECK(got.body == "p");
  CHECK(got.get_header_value("Content-Type") == "text/x");
  got = sent({.method = "DELETE", .path = "/a"});
  CHECK(got.method == "DELETE");
  CHECK(got.body.empty());
  got = sent({.method = "DELETE", .path = "/a", .body = std::string("a\0b", 3)});
  CHECK(got.method == "DELETE");
  CHECK(got.body == std::string("a\0b", 3));
  CHECK(got.get_header_value("Content-Type") == "application/json");
  got = sent({.path = "/a", .headers = {{"X-Test", "its own"}}});
  CHECK(got.get_header_value("X-Test") == "its own");
  std::promise<int> streamed;
  auto stream = std::make_shared<Transfer>(Request{.path = "/a"});
  stream->line = [](std::string_view) {};
  stream->done = [&](Response& response, const Failure&) { streamed.set_value(response.status); };
  ends.loop->add(stream);
  CHECK(streamed.get_future().get() == 200);
  CHECK_FALSE(asked.back().has_header("Accept-Encoding"));  // compression would delay the lines
  Ends uncompressed({.url = url, .compression = false});
  uncompressed.credentials->give("");
  CHECK(ask(*uncompressed.loop, {.path = "/a"}).get().response.status == 200);
  CHECK_FALSE(asked.back().has_header("Accept-Encoding"));
}

TEST_CASE("the loop repeats a request once after 401 if there is a new credential") {
  for (const bool renews : {true, false}) {
    FakeServer server(make_certificate({"server", "IP:127.0.0.1", nullptr}));
    std::atomic<Played*> credentials = nullptr;
    std::vector<std::string> sent;
    server.http->Get(".*", [&](const httplib::Request& request, httplib::Response& response) {
      sent.push_back(request.get_header_value("Authorization"));
      if (renews) credentials.load()->give("Bearer " + std::to_string(sent.size()));
      answer(response, 401, "{}");
    });
    Ends ends({.url = server.listen(), .insecure = true});
    credentials = ends.credentials;
    ends.credentials->give("Bearer 0");
    CHECK(ask(*ends.loop, {.path = "/a"}).get().response.status == 401);
    if (renews) {
      CHECK(sent == std::vector<std::string>{"Bearer 0", "Bearer 1"});
    } else {
      CHECK(sent == std::vector<std::string>{"Bearer 0"});
    }
  }
}

TEST_CASE(
    "the loop repeats a request to a busy server after the time in Retry-After if the timeout allows this") {
  FakeServer server;
  std::atomic<int> count = 0;
  std::string after = "0";
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response& response) {
    response.set_header("Retry-After", after);
    answer(response, ++count == 1 ? 503 : 200, "{}");
  });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  CHECK(ask(*ends.loop, {.path = "/a"}).get().response.status == 200);
  CHECK(count == 2);
  count = 0;
  after = "30";
  CHECK(ask(*ends.loop, {.path = "/a", .timeout = milliseconds(29'000)}).get().response.status == 503);
  CHECK(count == 1);
}

TEST_CASE("the detail of the failure names the timeout if no answer arrives in time") {
  FakeServer server;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response&) { server.hang(); });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  const Failure failure = ask(*ends.loop, {.path = "/a", .timeout = milliseconds(270)}).get().failure;
  CHECK(failure.kind == Failure::Kind::timed_out);
  CHECK(failure.detail == "no answer within 0.2 s");
  CHECK(ask(*ends.loop, {.path = "/a", .timeout = milliseconds(1000)}).get().failure.detail ==
        "no answer within 1 s");
}

TEST_CASE("a response has at most thirty-two warnings, and no warning without a text") {
  FakeServer server;
  int many = 32;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response& response) {
    for (int i = 0; i < many; ++i) response.headers.emplace("Warning", "299 - \"text\"");
    if (many == 0) {
      for (const char* odd :
           {"299 - text", "299", "2990 - \"x\"", "299 - \"\"", "299 - \"open", "299 - \"\\"})
        response.headers.emplace("Warning", odd);
    }
    answer(response, 200, "{}");
  });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  const auto warnings = [&] { return ask(*ends.loop, {.path = "/a"}).get().response.warnings; };
  CHECK(warnings().size() == 32);
  many = 33;
  CHECK(warnings().size() == 32);
  many = 0;
  CHECK(warnings() == std::vector<std::string>{"open", "\\"});
}

TEST_CASE(
    "a request fails if the unfinished answers exceed `most_held`; answers that have ended do not count") {
  FakeServer server;
  std::string body(1 << 20, 'x');
  server.http->Get(
      ".*", [&](const httplib::Request&, httplib::Response& response) { answer(response, 200, body); });
  Ends ends({.url = server.listen(), .most_held = 1 << 20});
  ends.credentials->give("");
  for (int i = 0; i < 2; ++i)
    CHECK(ask(*ends.loop, {.path = "/a"}).get().response.body.size() == body.size());
  body += "x";
  const Failure failure = ask(*ends.loop, {.path = "/a"}).get().failure;
  CHECK(failure.kind == Failure::Kind::too_large);
  CHECK(failure.detail == "all answers together more than 1 MiB");
  body = "small";
  CHECK(ask(*ends.loop, {.path = "/a"}).get().response.body == "small");
}

TEST_CASE("a stream delivers each line of at most 16 MiB, also the last line without a newline") {
  struct Row {
    std::string body;
    std::vector<std::size_t> lines;  // sizes of lines
    Failure::Kind failure = Failure::Kind::none;
  };
  constexpr std::size_t most = 16 << 20;
  FakeServer server;
  std::string body;
  int status = 200;
  server.http->Get(
      ".*", [&](const httplib::Request&, httplib::Response& response) { answer(response, status, body); });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  std::vector<std::size_t> lines;
  int opened = 0;
  const auto read = [&] {
    lines.clear();
    opened = 0;
    auto promise = std::make_shared<std::promise<Outcome>>();
    auto transfer = std::make_shared<Transfer>(Request{.path = "/a"});
    transfer->line = [&](std::string_view line) { lines.push_back(line.size()); };
    transfer->opened = [&](int with) { opened = with; };
    transfer->done = [promise](Response& response, const Failure& failure) {
      promise->set_value({std::move(response), failure});
    };
    ends.loop->add(transfer);
    return promise->get_future().get();
  };
  for (const Row& row :
       std::vector<Row>{{"a\nbc\n", {1, 2}},
                        {"a\n\nbc", {1, 0, 2}},
                        {"", {}},
                        {"\n", {0}},
                        {std::string(most, 'x') + "\ny\n", {most, 1}},
                        {"y\n" + std::string(most + 1, 'x') + "\n", {1}, Failure::Kind::too_large}}) {
    body = row.body;
    const Outcome outcome = read();
    CHECK(lines == row.lines);
    CHECK(opened == 200);
    CHECK(outcome.failure.kind == row.failure);
    CHECK(outcome.failure.detail == (row.failure == Failure::Kind::none ? "" : "a line of more than 16 MiB"));
  }
  // If the server refuses the stream, the response has the beginning of the body.
  status = 403;
  for (const std::size_t size : {(64 << 10) - 1, 64 << 10, (64 << 10) + 1}) {
    body = std::string(size, 'x');
    const Outcome outcome = read();
    CHECK(lines.empty());
    CHECK(opened == 403);
    CHECK(outcome.response.status == 403);
    CHECK(outcome.response.body.size() == std::min<std::size_t>(size, 64 << 10));
  }
  status = 401;  // the request may be sent again, so `opened` is not called
  CHECK(read().response.status == 401);
  CHECK(opened == 0);
}

TEST_CASE("a line that is too long arrives without its middle, and the next line follows") {
  FakeServer server;
  std::string body;
  server.http->Get(
      ".*", [&](const httplib::Request&, httplib::Response& response) { answer(response, 200, body); });
  Ends ends({.url = server.listen(), .most_held = 1 << 20});
  ends.credentials->give("");
  constexpr std::size_t most = 4096;
  const auto read = [&] {
    std::vector<std::string> lines;
    std::promise<Failure> ended;
    auto stream = std::make_shared<Transfer>(Request{.path = "/a", .longest_line = most});
    stream->line = [&](std::string_view line) { lines.emplace_back(line); };
    stream->done = [&](Response&, const Failure& failure) { ended.set_value(failure); };
    ends.loop->add(stream);
    CHECK(ended.get_future().get().kind == Failure::Kind::none);
    return lines;
  };
  const std::string begin = "07:40:25Z begin", end = "the end";
  for (const std::size_t middle : {most, std::size_t{17} << 20}) {
    body = begin + std::string(middle, 'x') + end + "\nnext\n" + begin + std::string(middle, 'y') + end;
    const std::vector<std::string> lines = read();
    REQUIRE(lines.size() == 3);
    CHECK(lines[1] == "next");
    for (const std::string& line : {lines[0], lines[2]}) {  // the last line has no newline
      CHECK(line.size() <= most);
      CHECK(line.size() >= most / 2);
      CHECK(line.starts_with(begin));
      CHECK(line.find("...") != std::string::npos);
      CHECK(line.ends_with(end));
    }
  }
  body = std::string(most, 'x') + "\n";
  CHECK(read() == std::vector<std::string>{std::string(most, 'x')});
}

TEST_CASE("stop() ends requests with the failure `closed`, and calls no callback of a stream") {
  FakeServer server;
  std::atomic<int> begun = 0;
  server.http->Get(".*", [&](const httplib::Request&, httplib::Response&) {
    ++begun;
    server.hang();
  });
  Ends ends({.url = server.listen()});
  ends.credentials->give("");
  std::future<Outcome> request = ask(*ends.loop, {.path = "/a"});
  bool told = false;
  auto stream = std::make_shared<Transfer>(Request{.path = "/b"});
  stream->line = [&](std::string_view) { told = true; };
  stream->done = [&](Response&, const Failure&) { told = true; };
  ends.loop->add(stream);
  REQUIRE(eventually([&] { return begun == 2; }));
  ends.loop->stop();
  CHECK(request.get().failure.kind == Failure::Kind::closed);
  CHECK_FALSE(told);
}
