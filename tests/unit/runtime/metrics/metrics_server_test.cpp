#include "runtime/metrics/metrics_server.h"

#include <arpa/inet.h>
#include <atomic>
#include <limits>
#include <list>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "runtime/metrics/prometheus.h"

TEST_SUITE_BEGIN("runtime/metrics/metrics_server");

using namespace mlk::rt;

namespace {

std::string answer_to(std::string_view head) {
  return http_answer(head, "text/x", [] { return std::string("figures\n"); });
}

std::string status_of(std::string_view head) {
  const std::string answer = answer_to(head);
  return answer.substr(9, 3);
}

Measurements some_measurements() {
  Measurements m;
  m.step = 12;
  m.steps = 3;
  m.samples = 96;
  m.times = {0.5, 0.25, 1};
  m.durations[0] = 1;
  m.durations[8] = 1;
  m.durations[13] = 1;
  return m;
}

// A connection to a port of this machine.
class Client {
 public:
  explicit Client(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // False: the other side has closed.
  bool say(const std::string& text) const {
    return send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // Reads until the other side closes, or sends no more.
  std::string hear() const {
    std::string heard;
    char bytes[4096];
    for (ssize_t count; (count = recv(fd_, bytes, sizeof bytes, 0)) > 0;)
      heard.append(bytes, static_cast<std::size_t>(count));
    return heard;
  }

 private:
  const int fd_;
};

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("the metrics are at /metrics, for GET and HEAD, and every other request is refused") {
  const std::string get = answer_to("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(get ==
        "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 8\r\nConnection: close\r\n\r\nfigures\n");
  CHECK(answer_to("HEAD /metrics HTTP/1.0\r\n\r\n") == get.substr(0, get.size() - 8));
  CHECK(status_of("GET /metrics?name[]=x HTTP/1.1\n\n") == "200");
  for (const char* head :
       {"GET / HTTP/1.1\r\n\r\n", "GET /metrics/ HTTP/1.1\r\n\r\n", "GET http://x HTTP/1.1\r\n\r\n"})
    CHECK(status_of(head) == "404");
  CHECK(status_of("POST /metrics HTTP/1.1\r\n\r\n") == "405");
  for (const char* head : {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "GET /metrics HTTP/2\r\n\r\n",
                           "\x16\x03\x01 a b\n\n", "  \n\n"})
    CHECK(status_of(head) == "400");
}

TEST_CASE("prometheus_text writes measurements as families of samples") {
  Measurements m = some_measurements();
  const std::string text = prometheus_text(m);
  CHECK(text.ends_with("\n"));
  for (const char* line :
       {"# TYPE mlk_step gauge", "mlk_step 12", "mlk_samples_total 96", "# TYPE mlk_step_seconds histogram",
        "mlk_step_seconds_bucket{le=\"0.0001\"} 1", "mlk_step_seconds_bucket{le=\"0.25\"} 1",
        "mlk_step_seconds_bucket{le=\"1\"} 2", "mlk_step_seconds_bucket{le=\"100\"} 2",
        "mlk_step_seconds_bucket{le=\"+Inf\"} 3", "mlk_step_seconds_sum 1.75", "mlk_step_seconds_count 3",
        "mlk_compute_seconds_total 0.5", "mlk_data_wait_seconds_total 0.25",
        "mlk_comm_wait_seconds_total 1"}) {
    CHECK_MESSAGE(has_line(text, line), line);
  }
  for (const char* name : {"mlk_loss", "mlk_accuracy", "mlk_staleness", "mlk_world_size", "mlk_slowest"})
    CHECK_MESSAGE(text.find(name) == std::string::npos, name);

  m.report = {12, 3, std::numeric_limits<double>::infinity(), 41233};
  m.staleness = {{6, 4, 3}};
  m.run = {{3, 5, 2, 64, 1}};
  const std::string whole = prometheus_text(m);
  for (const char* line :
       {"mlk_epoch 3", "mlk_loss +Inf", "mlk_samples_per_second 41233", "mlk_staleness 2",
        "mlk_staleness_max 4", "mlk_world_size 3", "mlk_generation 5", "mlk_restarts_total 2",
        "mlk_lost_samples_total 64", "mlk_slowest{process=\"worker/1\"} 1"}) {
    CHECK_MESSAGE(has_line(whole, line), line);
  }
}

TEST_CASE("the server closes silent clients to answer new ones, and closes a client that sends without end") {
  std::atomic<int> asked = 0;
  const MetricsServer server({"127.0.0.1", 0}, "text/x", [&asked] {
    ++asked;
    return std::string("figures\n");
  });
  std::list<Client> silent;
  for (std::size_t i = 0; i < 2 * MetricsServer::most_connections; ++i) silent.emplace_back(server.port());
  const Client half(server.port());
  CHECK(half.say("GET /metr"));
  CHECK(silent.front().hear().empty());  // the oldest was closed
  CHECK(asked == 0);

  const Client endless(server.port());
  const std::string line(1 << 16, 'x');
  std::size_t said = 0;
  while (said < (64u << 20) && endless.say(line)) said += line.size();
  CHECK(said < (64u << 20));

  for (int i = 0; i < 3; ++i) {
    const Client client(server.port());
    CHECK(client.say("GET /metrics HTTP/1.1\r\n"));
    CHECK(client.say("Host: x\r\n\r\n"));
    CHECK(client.hear().ends_with("\r\n\r\nfigures\n"));
  }
  CHECK(asked == 3);
}
