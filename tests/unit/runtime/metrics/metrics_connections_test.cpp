#include <arpa/inet.h>
#include <cstdint>
#include <list>
#include <netinet/in.h>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "runtime/base/exit_code.h"
#include "runtime/metrics/metrics_server.h"
#include "tests/unit/runtime/system_calls.h"

TEST_SUITE_BEGIN("runtime/metrics/metrics_connections");

namespace mlk::rt {
namespace {
namespace metrics_connections {

using test::open_descriptors;

std::string figures() { return "figures\n"; }

const std::string whole_answer =
    "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 8\r\nConnection: close\r\n\r\nfigures\n";

// The answer to a request that is refused.
std::string refusal(const std::string& status, const std::string& more = "") {
  return "HTTP/1.1 " + status + "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " +
         std::to_string(status.size() + 1) + "\r\nConnection: close\r\n" + more + "\r\n" + status + "\n";
}

// A connection to a port of this machine.
class Asker {
 public:
  Asker() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) { REQUIRE(fd_ >= 0); }
  explicit Asker(std::uint16_t port) : Asker() { connect_to(port); }
  ~Asker() { close(fd_); }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  void connect_to(std::uint16_t port) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  void say(const std::string& text) const {
    REQUIRE(send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  }
  void say_no_more() const { shutdown(fd_, SHUT_WR); }
  // Reads until the other side closes, or sends no more.
  std::string hear() const {
    std::string heard;
    char bytes[4096];
    for (ssize_t count; (count = recv(fd_, bytes, sizeof bytes, 0)) > 0;)
      heard.append(bytes, static_cast<std::size_t>(count));
    return heard;
  }
  std::string ask(const std::string& head) const {
    say(head);
    return hear();
  }

 private:
  const int fd_;
};

std::string answer_for(std::string_view head) { return http_answer(head, "text/x", figures); }

}  // namespace metrics_connections

TEST_CASE("the limits of the metrics server have their documented values") {
  CHECK(MetricsServer::most_connections == 16);
  CHECK(MetricsServer::most_request == 8192);
  CHECK(MetricsServer::most_read == 1024 * 1024);
  CHECK(MetricsServer::patience_seconds == 5);
}

TEST_CASE("each refusal has its own status, and the refusal of a method lists the allowed methods") {
  using namespace metrics_connections;
  CHECK(answer_for("GET /x HTTP/1.1\r\n\r\n") == refusal("404 Not Found"));
  CHECK(answer_for("GET /metricsx HTTP/1.1\r\n\r\n") == refusal("404 Not Found"));
  CHECK(answer_for("GET ?/metrics HTTP/1.1\r\n\r\n") == refusal("404 Not Found"));
  const std::string no_method = refusal("405 Method Not Allowed", "Allow: GET, HEAD\r\n");
  for (const char* method : {"POST", "get", "GETS", "PUT", "OPTIONS", ""})
    CHECK(answer_for(std::string(method) + " /metrics HTTP/1.1\r\n\r\n") == no_method);
  for (const char* line :
       {"", "GET", "GET /metrics", "GET HTTP/1.1", "GET /metrics HTTP/1", "GET /metrics http/1.1",
        "GET /metrics HTTP/2.1", "GET /metrics xHTTP/1.1", "GET /metrics HTTP/1.1 "})
    CHECK(answer_for(std::string(line) + "\r\n\r\n") == refusal("400 Bad Request"));
  CHECK(answer_for("GET /metrics? HTTP/1.0\n\n") == whole_answer);
  CHECK(answer_for("GET /metrics HTTP/1.9\r\nHost: a b c\r\n\r\n") == whole_answer);
}

TEST_CASE("a refused request does not call the function for the metrics") {
  const auto none = []() -> std::string { throw std::runtime_error("asked"); };
  for (const char* head : {"GET / HTTP/1.1\r\n\r\n", "POST /metrics HTTP/1.1\r\n\r\n", "\r\n\r\n"})
    CHECK_NOTHROW(http_answer(head, "text/x", none));
}

TEST_CASE("a connection gets one answer, to its first request, and then ends") {
  using namespace metrics_connections;
  const MetricsServer server({"127.0.0.1", 0}, "text/x", figures);
  CHECK(Asker(server.port()).ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") == whole_answer);
  CHECK(Asker(server.port()).ask("GET /metrics HTTP/1.1\nHost: x\n\n") == whole_answer);
  CHECK(Asker(server.port()).ask("HEAD /metrics HTTP/1.1\r\n\r\n") ==
        whole_answer.substr(0, whole_answer.size() - 8));
  CHECK(Asker(server.port()).ask("GET /x HTTP/1.1\r\n\r\n") == refusal("404 Not Found"));
  CHECK(Asker(server.port()).ask("GET /metrics HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n") ==
        whole_answer);
  const Asker half(server.port());
  half.say("GET /metrics HTTP/1.1\r\nHost");
  half.say_no_more();
  CHECK(half.hear() == "");
  const Asker whole(server.port());
  whole.say("GET /metrics HTTP/1.1\r\n\r\n");
  whole.say_no_more();
  CHECK(whole.hear() == whole_answer);
}

TEST_CASE("the server reads and drops bytes that a client sends after the answer") {
  using namespace metrics_connections;
  const MetricsServer server({"127.0.0.1", 0}, "text/x", figures);
  const Asker talking(server.port());
  CHECK(talking.ask("GET /metrics HTTP/1.1\r\n\r\n") == whole_answer);
  for (int i = 0; i < 10; ++i) {
    talking.say("more");  // while the connection is open
    // The server answers this request after it has read `more`.
    CHECK(Asker(server.port()).ask("GET /metrics HTTP/1.1\r\n\r\n") == whole_answer);
  }
}

TEST_CASE("an answer arrives completely even if it does not fit into one message") {
  using namespace metrics_connections;
  std::string large;
  for (int i = 0; large.size() < (8u << 20); ++i) large += std::to_string(i) + "\n";
  const MetricsServer server({"127.0.0.1", 0}, "text/x", [&large] { return large; });
  const Asker first(server.port()), second(server.port());
  for (const Asker* asker : {&first, &second}) asker->say("GET /metrics HTTP/1.1\r\n\r\n");
  const std::string expected =
      "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: " + std::to_string(large.size()) +
      "\r\nConnection: close\r\n\r\n" + large;
  const bool second_is_whole = second.hear() == expected, first_is_whole = first.hear() == expected;
  CHECK(first_is_whole);
  CHECK(second_is_whole);
}

TEST_CASE("a request may have 8 KiB before the blank line that ends it, and a longer request is refused") {
  using namespace metrics_connections;
  const MetricsServer server({"127.0.0.1", 0}, "text/x", figures);
  std::string head = "GET /metrics HTTP/1.1\r\nX: ";
  head.resize(8192, 'x');
  const Asker just(server.port());
  just.say(head);
  // The server answers later requests later, so by now it has read everything that was sent before.
  CHECK(Asker(server.port()).ask("GET /metrics HTTP/1.1\r\n\r\n") == whole_answer);
  CHECK(just.ask("\r\n\r\n") == whole_answer);
  CHECK(Asker(server.port()).ask(head + "x") == refusal("431 Request Header Fields Too Large"));
}

TEST_CASE("the server keeps sixteen connections, and a seventeenth connection closes the oldest") {
  using namespace metrics_connections;
  const MetricsServer server({"127.0.0.1", 0}, "text/x", figures);
  for (const std::size_t count : {16u, 17u}) {
    CAPTURE(count);
    std::list<Asker> askers;
    for (std::size_t i = 0; i < count; ++i) {
      askers.emplace_back(server.port());
      askers.back().say("GET /metrics HTTP/1.1\r\n");
    }
    if (count == 17) {
      CHECK(askers.front().hear() == "");
      askers.pop_front();
    }
    for (const Asker& asker : askers) CHECK(asker.ask("\r\n") == whole_answer);
  }
}

TEST_CASE("a destroyed server has closed its port and all its connections") {
  using namespace metrics_connections;
  const std::ptrdiff_t before = open_descriptors();
  std::uint16_t port = 0;
  {
    const MetricsServer server({"127.0.0.1", 0}, "text/x", figures);
    port = server.port();
    CHECK(port != 0);
    const Asker silent(port), asking(port);
    CHECK(asking.ask("GET /metrics HTTP/1.1\r\n\r\n") == whole_answer);
  }
  CHECK(open_descriptors() == before);
  // The same port is free again, and only one server can listen there.
  const MetricsServer again({"127.0.0.1", port}, "text/x", figures);
  CHECK(again.port() == port);
  try {
    const MetricsServer other({"127.0.0.1", port}, "text/x", figures);
    FAIL("two have the same port");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::internal_error);
    CHECK(std::string(failure.what()) ==
          "cannot listen at 127.0.0.1:" + std::to_string(port) + ": Address already in use");
  }
}

TEST_CASE("if a server cannot open all its descriptors, it throws a failure and leaves nothing open") {
  using namespace metrics_connections;
  const std::ptrdiff_t before = open_descriptors();
  rlimit usual{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const int free = dup(0);
  close(free);
  rlimit room_for_one = usual;
  room_for_one.rlim_cur = static_cast<rlim_t>(free) + 1;
  std::string said;
  ExitCode code = ExitCode::trained;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &room_for_one) == 0);
  try {
    const MetricsServer server({"127.0.0.1", 0}, "text/x", figures);
  } catch (const Failure& failure) {
    said = failure.what();
    code = failure.code;
  }
  REQUIRE(setrlimit(RLIMIT_NOFILE, &usual) == 0);
  CHECK(said == "cannot open an eventfd: Too many open files");
  CHECK(code == ExitCode::internal_error);
  CHECK(open_descriptors() == before);
}

TEST_CASE("if the process has no free descriptor, a new client waits until there is one") {
  using namespace metrics_connections;
  const MetricsServer server({"127.0.0.1", 0}, "text/x", figures);
  rlimit usual{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const Asker shut_out;
  {
    const Asker first(server.port()), second(server.port());
    for (const Asker* inside : {&first, &second}) inside->say("GET /metrics HTTP/1.1\r\n");
    // The server answers this request after it has accepted those two clients.
    CHECK(Asker(server.port()).ask("GET /metrics HTTP/1.1\r\n\r\n") == whole_answer);
    const int free = dup(0);
    close(free);
    rlimit no_more = usual;
    no_more.rlim_cur = static_cast<rlim_t>(free);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &no_more) == 0);
    shut_out.connect_to(server.port());
    // Two requests one after the other: between them the server has tried to accept the new client.
    const std::string one = first.ask("\r\n"), other = second.ask("\r\n");
    REQUIRE(setrlimit(RLIMIT_NOFILE, &usual) == 0);
    CHECK(one == whole_answer);
    CHECK(other == whole_answer);
  }
  CHECK(shut_out.ask("GET /metrics HTTP/1.1\r\n\r\n") == whole_answer);
}

}  // namespace
}  // namespace mlk::rt
