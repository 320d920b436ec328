// Checks how the bodies of single exchanges stream, and for which reasons an exchange ends, in the caller's
// thread and in the thread of a pool.
#include "cli/http/connection.h"

#include <chrono>
#include <memory>
#include <thread>

#include <doctest/doctest.h>

#include "cli/http/connection_pool.h"
#include "tests/unit/kube/fake_server.h"

TEST_SUITE_BEGIN("http/connection");

namespace {

using mlk::http::Call;
using mlk::http::Connection;
using mlk::http::ConnectionPool;
using mlk::http::Failure;
using mlk::http::Reply;

using Asked = httplib::Request;
using Answer = httplib::Response;

// Records each request, and answers with the status and the body that a test has set.
struct EchoServer {
  FakeServer server{};
  std::string url{};
  std::string body = "content";
  int status = 200;
  std::vector<Asked> asked{};

  EchoServer() {
    const auto serve = [this](const Asked& request, Answer& response) {
      asked.push_back(request);
      response.status = status;
      response.set_header("X-Odd-Name", "first");
      response.set_content(body, "text/plain");
    };
    server.http->Get(".*", serve);
    server.http->Put(".*", serve);
    server.http->Post(".*", serve);
    server.http->Delete(".*", serve);
    url = server.listen();
  }
};

// doctest runs a test case that calls this function twice: without a pool, and with a pool.
std::shared_ptr<ConnectionPool> pool_or_none() {
  std::shared_ptr<ConnectionPool> out;
  SUBCASE("without a pool") {}
  SUBCASE("with a pool") { out = std::make_shared<ConnectionPool>(); }
  return out;
}

}  // namespace

TEST_CASE("an answer has its status, its body and headers with names in lower-case letters") {
  EchoServer echo;
  Connection connection({.pool = pool_or_none()});
  const Reply reply = connection.exchange({.url = echo.url + "/a%2Fb?c=d", .headers = {{"X-Own", "value"}}});
  CHECK(reply.ok());
  CHECK(reply.status == 200);
  CHECK(reply.body == "content");
  CHECK(reply.header("x-odd-name") == "first");
  CHECK(reply.header("gone").empty());
  CHECK(echo.asked[0].target == "/a%2Fb?c=d");
  CHECK(echo.asked[0].get_header_value("X-Own") == "value");
  CHECK(echo.asked[0].get_header_value("User-Agent") == "mlk");
  echo.status = 404;
  const Reply gone = connection.exchange({.url = echo.url});
  CHECK_FALSE(gone.ok());
  CHECK(gone.failure.kind == Failure::Kind::none);
  CHECK(gone.body == "content");
  CHECK(connection.exchange({.method = "HEAD", .url = echo.url}).body.empty());
}

TEST_CASE(
    "exchange() sends a body with the caller's Content-Type or with none, and reports how many bytes were "
    "sent") {
  EchoServer echo;
  Connection connection({.pool = pool_or_none()});
  const std::string body(3 << 20, 'x');
  for (const char* method : {"PUT", "POST"}) {
    std::uint64_t sent = 0;
    CHECK(connection
              .exchange({.method = method,
                         .url = echo.url,
                         .body = body,
                         .sent = [&](std::uint64_t count) { sent += count; }})
              .ok());
    CHECK(sent == body.size());
    CHECK(echo.asked.back().method == method);
    CHECK(echo.asked.back().body == body);
    CHECK_FALSE(echo.asked.back().has_header("Content-Type"));
    CHECK_FALSE(echo.asked.back().has_header("Expect"));
  }
  CHECK(
      connection.exchange({.method = "PUT", .url = echo.url, .headers = {{"Content-Type", "text/x"}}}).ok());
  CHECK(echo.asked.back().get_header_value("Content-Type") == "text/x");
  CHECK(echo.asked.back().body.empty());
  CHECK(connection.exchange({.method = "DELETE", .url = echo.url}).ok());
  CHECK(echo.asked.back().method == "DELETE");
}

TEST_CASE("the body of a good answer goes to `take` in parts, and the body of a bad answer into the reply") {
  EchoServer echo;
  echo.body = std::string(2 << 20, 'y');
  Connection connection({.pool = pool_or_none()});
  std::string taken;
  int begun = 0;
  const Call call{.url = echo.url,
                  .take =
                      [&](std::string_view part) {
                        taken += part;
                        return true;
                      },
                  .begun =
                      [&](int status) {
                        begun += status;
                        CHECK(taken.empty());
                      }};
  Reply reply = connection.exchange(call);
  CHECK(reply.ok());
  CHECK(reply.body.empty());
  CHECK(taken == echo.body);
  CHECK(begun == 200);
  taken.clear();
  echo.status = 503;
  echo.body = "busy";
  reply = connection.exchange(call);
  CHECK(reply.body == "busy");
  CHECK(taken.empty());
  CHECK(begun == 200);
}

TEST_CASE("a Connection can run another exchange after `take` has returned false or thrown an exception") {
  EchoServer echo;
  echo.body = std::string(4 << 20, 'y');
  Connection connection({.pool = pool_or_none()});
  int parts = 0;
  const Reply reply =
      connection.exchange({.url = echo.url, .take = [&](std::string_view) { return ++parts < 2; }});
  CHECK(reply.failure.kind == Failure::Kind::closed);
  CHECK(parts == 2);
  CHECK_THROWS_AS((void)connection.exchange(
                      {.url = echo.url, .take = [](std::string_view) -> bool { throw std::string("x"); }}),
                  std::string);
  CHECK(connection.exchange({.url = echo.url, .most_bytes = 5 << 20}).body == echo.body);
}

TEST_CASE("without a pool, the callback `take` is allowed to make an exchange on another Connection") {
  EchoServer echo;
  Connection outer({}), inner({});
  std::string seen;
  const Reply reply =
      outer.exchange({.url = echo.url, .take = [&](std::string_view part) {
                        seen = inner.exchange({.method = "PUT", .url = echo.url, .body = part}).body;
                        return true;
                      }});
  CHECK(reply.ok());
  CHECK(seen == "content");
  CHECK(echo.asked.back().body == "content");
}

TEST_CASE("the failure of exchange() has `for_good` set if the body or the head of an answer is too large") {
  EchoServer echo;
  echo.body = std::string(1001, 'y');
  Connection connection({.pool = pool_or_none()});
  CHECK(connection.exchange({.url = echo.url, .most_bytes = 1001}).ok());
  const Reply reply = connection.exchange({.url = echo.url, .most_bytes = 1000});
  CHECK(reply.failure.kind == Failure::Kind::too_large);
  CHECK(reply.failure.detail == "more than 1 KiB");
  CHECK(reply.failure.for_good);
  const RawServer raw([](int, const std::string&) {
    std::string out = "HTTP/1.1 200 OK\r\n";
    for (int i = 0; i < 10'000; ++i) out += "X-" + std::to_string(i) + ": " + std::string(40, 'z') + "\r\n";
    return out + "Content-Length: 0\r\n\r\n";
  });
  const Failure failure = connection.exchange({.url = raw.config().server}).failure;
  CHECK(failure.kind == Failure::Kind::too_large);
  CHECK(failure.detail == "more than 256 KiB");
  CHECK(failure.for_good);
}

TEST_CASE("an exchange fails if the head of the answer has more than 256 KiB") {
  Connection connection({.pool = pool_or_none()});
  for (const std::size_t size :
       {std::size_t{256 << 10}, std::size_t{256 << 10}, std::size_t{(256 << 10) + 1}}) {
    std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n";
    while (head.size() < size - 20'000) head += "X-Long: " + std::string(10'000, 'z') + "\r\n";
    head += "X-Last: ";
    head += std::string(size - 4 - head.size(), 'z') + "\r\n\r\n";
    REQUIRE(head.size() == size);
    const RawServer raw([&](int, const std::string&) { return head + "{}"; });
    const Reply reply = connection.exchange({.url = raw.config().server});
    CHECK(reply.failure.kind == (size > 256 << 10 ? Failure::Kind::too_large : Failure::Kind::none));
  }
}

TEST_CASE("an answer is good if its status is from 200 to 299") {
  const auto is_good = [](int status, Failure::Kind kind = Failure::Kind::none) {
    return Reply{.status = status, .headers = {}, .body = "", .failure = {.kind = kind}}.ok();
  };
  for (const int status : {200, 201, 299}) CHECK(is_good(status));
  for (const int status : {0, 100, 199, 300, 404, 500}) CHECK_FALSE(is_good(status));
  CHECK_FALSE(is_good(200, Failure::Kind::broken));
  EchoServer echo;
  Connection connection({.pool = pool_or_none()});
  for (const int status : {200, 206, 299, 300, 404}) {
    echo.status = status;
    int begun = 0;
    std::string taken;
    const Call call{.url = echo.url,
                    .take =
                        [&](std::string_view part) {
                          taken += part;
                          return true;
                        },
                    .begun = [&](int with) { begun = with; }};
    const Reply reply = connection.exchange(call);
    CHECK(reply.status == status);
    CHECK(taken == (status < 300 ? "content" : ""));
    CHECK(reply.body == (status < 300 ? "" : "content"));
    CHECK(begun == (status < 300 ? status : 0));
  }
}

TEST_CASE("an exchange does not affect the next exchange of the same Connection") {
  EchoServer echo;
  Connection connection({.pool = pool_or_none()});
  CHECK(connection
            .exchange({.method = "PUT",
                       .url = echo.url,
                       .headers = {{"X-Own", "value"}, {"Content-Type", "text/x"}},
                       .body = "sent",
                       .take = [](std::string_view) { return false; }})
            .failure.kind == Failure::Kind::closed);
  const Reply reply = connection.exchange({.url = echo.url});
  CHECK(reply.ok());
  CHECK(reply.body == "content");
  CHECK(echo.asked.back().method == "GET");
  CHECK(echo.asked.back().body.empty());
  CHECK_FALSE(echo.asked.back().has_header("X-Own"));
  CHECK_FALSE(echo.asked.back().has_header("Content-Type"));
  CHECK(connection.exchange({.method = "HEAD", .url = echo.url}).ok());
  CHECK(connection.exchange({.url = echo.url}).body == "content");
  CHECK(connection.exchange({.url = echo.url, .most_bytes = 6}).failure.kind == Failure::Kind::too_large);
  CHECK(connection.exchange({.url = echo.url}).ok());
}

TEST_CASE(
    "if a reused connection ends without an answer, exchange() repeats only requests that have no body") {
  struct Row {
    const char* method;
    std::string_view body;
    bool again;
  };
  const std::shared_ptr<ConnectionPool> pool = pool_or_none();
  for (const Row& row : std::vector<Row>{
           {"GET", "", true}, {"POST", "", true}, {"PUT", "content", false}, {"POST", "content", false}}) {
    CAPTURE(row.method);
    const RawServer raw([](int number, const std::string&) {
      return number == 1 ? std::string() : RawServer::empty_object();
    });
    Connection connection({.pool = pool});
    CHECK(connection.exchange({.url = raw.config().server}).ok());
    const Reply reply =
        connection.exchange({.method = row.method, .url = raw.config().server, .body = row.body});
    CHECK(reply.failure.kind == (row.again ? Failure::Kind::none : Failure::Kind::broken));
    CHECK(raw.requests() == (row.again ? 3 : 2));
  }
}

TEST_CASE("a reply has every value of a header, and header() finds the first one") {
  Connection connection({.pool = pool_or_none()});
  const RawServer raw([](int, const std::string&) {
    return "HTTP/1.1 200 OK\r\nX-Two:  one \r\nx-TWO:two:three\r\nContent-Length: 2\r\n\r\n{}";
  });
  const Reply reply = connection.exchange({.url = raw.config().server});
  CHECK(reply.headers ==
        mlk::http::Headers{{"x-two", "one"}, {"x-two", "two:three"}, {"content-length", "2"}});
  CHECK(reply.header("x-two") == "one");
  CHECK(reply.header("X-Two").empty());  // header() needs names in lower-case letters
}

TEST_CASE("exchange() returns redirects as answers, and refuses other schemes than http and https") {
  EchoServer echo;
  EchoServer other;
  Connection connection({.pool = pool_or_none()});
  echo.server.http->set_post_routing_handler([&](const Asked&, Answer& response) {
    response.set_header("Location", other.url);
    response.status = 307;
  });
  const Reply reply = connection.exchange({.url = echo.url});
  CHECK(reply.status == 307);
  CHECK(reply.header("location") == other.url);
  CHECK(other.asked.empty());
  for (const char* url : {"file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1", "no url", ""})
    CHECK(connection.exchange({.url = url}).failure.kind == Failure::Kind::other);
}

TEST_CASE("exchange() reports an incomplete answer as broken, and an unreachable server as refused") {
  Connection connection({.pool = pool_or_none()});
  std::string taken;
  const RawServer raw(
      [](int, const std::string&) { return "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"; });
  const Reply cut = connection.exchange({.url = raw.config().server, .take = [&](std::string_view part) {
                                           taken += part;
                                           return true;
                                         }});
  CHECK(cut.failure.kind == Failure::Kind::broken);
  CHECK(taken == "only this");
  std::string url;
  {
    const RawServer gone([](int, const std::string&) { return ""; });
    url = gone.config().server;
  }
  CHECK(connection.exchange({.url = url}).failure.kind == Failure::Kind::refused);
}

TEST_CASE("a reply has the headers of the final answer, and none of an interim answer before it") {
  Connection connection({.pool = pool_or_none()});
  const RawServer raw([](int, const std::string&) {
    return "HTTP/1.1 103 Early Hints\r\nX-Early: yes\r\n\r\nHTTP/1.1 201 Created\r\nX-Late: "
           "yes\r\nContent-Length: 2\r\n\r\n{}";
  });
  const Reply reply = connection.exchange({.url = raw.config().server});
  CHECK(reply.status == 201);
  CHECK(reply.header("x-early").empty());
  CHECK(reply.header("x-late") == "yes");
}

TEST_CASE("exchange() ends if `go_on` returns false while the server is silent") {
  FakeServer server;
  server.http->Get(".*", [&](const Asked&, Answer&) { server.hang(); });
  const std::string url = server.listen();
  Connection connection({.go_on = [] { return false; }, .pool = pool_or_none()});
  CHECK(connection.exchange({.url = url}).failure.kind == Failure::Kind::closed);
}

TEST_CASE("an exchange ends if the server sends only a few bytes a second") {
  FakeServer server;
  server.http->Get(".*", [&](const Asked&, Answer& response) {
    response.set_chunked_content_provider("text/plain",
                                          [&, parts = 0](std::size_t, httplib::DataSink& sink) mutable {
                                            constexpr int many = 100;
                                            std::this_thread::sleep_for(std::chrono::milliseconds(100));
                                            if (!server.stopping && ++parts < many) return sink.write("x", 1);
                                            sink.done();
                                            return !server.stopping;
                                          });
  });
  const std::string url = server.listen();
  Connection connection({.patience = std::chrono::seconds(2), .pool = pool_or_none()});
  const Failure failure = connection.exchange({.url = url}).failure;
  CHECK(failure.kind == Failure::Kind::timed_out);
  CHECK(failure.detail == "no connection within 20 s, or almost no data for a minute");
}

TEST_CASE("exchange() passes on the exceptions of its callbacks") {
  EchoServer echo;
  const std::shared_ptr<ConnectionPool> pool = pool_or_none();
  Connection stopped({.go_on = []() -> bool { throw 5; }, .pool = pool});
  CHECK_THROWS_AS((void)stopped.exchange({.url = echo.url}), int);
  Connection connection({.pool = pool});
  const std::string body(1 << 20, 'x');
  CHECK_THROWS_AS(
      (void)connection.exchange(
          {.method = "PUT", .url = echo.url, .body = body, .sent = [](std::uint64_t) { throw 5; }}),
      int);
  CHECK(connection.exchange({.url = echo.url}).ok());
}

TEST_CASE("exchange() refuses a certificate if `ca_pem` lacks its authority, unless `insecure` is set") {
  const Certificate authority = make_authority("own"), another = make_authority("another");
  FakeServer server(make_certificate({"server", "IP:127.0.0.1", &authority}));
  server.http->Get(".*",
                   [](const Asked&, Answer& response) { response.set_content("content", "text/plain"); });
  const std::string url = server.listen();
  const std::shared_ptr<ConnectionPool> pool = pool_or_none();
  const auto kind = [&](mlk::http::ConnectionOptions options) {
    options.pool = pool;
    return Connection(options).exchange({.url = url}).failure.kind;
  };
  CHECK(kind({.ca_pem = authority.pem()}) == Failure::Kind::none);
  CHECK(kind({.ca_pem = another.pem() + authority.pem()}) == Failure::Kind::none);
  CHECK(kind({.ca_pem = another.pem()}) == Failure::Kind::untrusted);
  CHECK(kind({}) == Failure::Kind::untrusted);
  CHECK(kind({.insecure = true}) == Failure::Kind::none);
}
