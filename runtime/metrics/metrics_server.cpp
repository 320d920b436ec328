// Connections through poll: read a head, write an answer, wait for the other side to close.
#include "runtime/metrics/metrics_server.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "runtime/base/exit_code.h"
#include "runtime/base/listen.h"

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

std::string answer(const char* status, const char* content_type, const std::string& body, bool with_body) {
  std::string text = std::string("HTTP/1.1 ") + status + "\r\nContent-Type: " + content_type +
                     "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n";
  if (std::string_view(status).starts_with("405")) text += "Allow: GET, HEAD\r\n";
  text += "\r\n";
  return with_body ? text + body : text;
}

std::string refusal(const char* status) {
  return answer(status, "text/plain; charset=utf-8", std::string(status) + "\n", true);
}

bool is_complete(std::string_view head) {
  return head.find("\r\n\r\n") != std::string_view::npos || head.find("\n\n") != std::string_view::npos;
}

// The connection of one client. The server answers when the head of the request has arrived. Then it reads
// and drops further bytes until the client closes the connection. If the server closed a socket with unread
// bytes, the client could lose the answer.
class Connection {
 public:
  explicit Connection(int fd) : fd_(fd), opened_(steady_clock::now()) {}
  ~Connection() { close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return fd_; }
  short wanted() const { return left().empty() ? POLLIN : POLLOUT; }
  steady_clock::time_point deadline() const {
    return opened_ + std::chrono::duration_cast<steady_clock::duration>(
                         std::chrono::duration<double>(MetricsServer::patience_seconds));
  }

  // False: the connection is over.
  template <typename Answer>
  bool go_on(const Answer& answer_to) {
    return left().empty() ? read(answer_to) : write();
  }

 private:
  std::string_view left() const { return std::string_view(answer_).substr(written_); }

  template <typename Answer>
  bool read(const Answer& answer_to) {
    char bytes[4096];
    const ssize_t count = recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    read_ += static_cast<std::size_t>(count);
    if (!answer_.empty()) return read_ <= MetricsServer::most_read;
    head_.append(bytes, static_cast<std::size_t>(count));
    if (is_complete(head_)) {
      answer_ = answer_to(head_);
    } else if (head_.size() > MetricsServer::most_request) {
      answer_ = refusal("431 Request Header Fields Too Large");
    }
    return answer_.empty() || write();
  }

  bool write() {
    const ssize_t count = send(fd_, left().data(), left().size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    written_ += static_cast<std::size_t>(count);
    if (left().empty()) shutdown(fd_, SHUT_WR);
    return true;
  }

  const int fd_;
  const steady_clock::time_point opened_;
  std::string head_, answer_;
  std::size_t read_ = 0, written_ = 0;
};

}  // namespace

std::string http_answer(std::string_view head, const char* content_type,
                        const std::function<std::string()>& content) {
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !line.substr(last + 1).starts_with("HTTP/1."))
    return refusal("400 Bad Request");
  const std::string_view method = line.substr(0, first);
  if (method != "GET" && method != "HEAD") return refusal("405 Method Not Allowed");
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (target.substr(0, target.find('?')) != "/metrics") return refusal("404 Not Found");
  return answer("200 OK", content_type, content(), method == "GET");
}

MetricsServer::MetricsServer(const HostPort& where, const char* content_type, Content content)
    : content_type_(content_type),
      content_(std::move(content)),
      listen_(listen_at(where, std::chrono::milliseconds(0))),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (stop_ < 0) {
    close(listen_);
    throw Failure(ExitCode::internal_error, std::string("cannot open an eventfd: ") + std::strerror(errno));
  }
  thread_ = std::thread([this] { run(); });
}

MetricsServer::~MetricsServer() {
  const std::uint64_t one = 1;
  (void)!::write(stop_, &one, sizeof one);
  thread_.join();
  close(listen_);
  close(stop_);
}

std::uint16_t MetricsServer::port() const {
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  getsockname(listen_, reinterpret_cast<sockaddr*>(&bound.storage), &bound.length);
  return ntohs(
      reinterpret_cast<const sockaddr_in*>(bound.get())->sin_port);  // IPv6 has the port at the same offset
}

void MetricsServer::run() {
  std::list<Connection> connections;  // the oldest first
  steady_clock::time_point accept_after{};
  const auto answer_to = [this](std::string_view head) { return http_answer(head, content_type_, content_); };
  while (true) {
    const auto now = steady_clock::now();
    std::erase_if(connections, [now](const Connection& c) { return c.deadline() <= now; });
    const bool accepts = now >= accept_after;
    std::vector<pollfd> polled = {{stop_, POLLIN, 0}, {accepts ? listen_ : -1, POLLIN, 0}};
    for (const Connection& connection : connections)
      polled.push_back({connection.fd(), connection.wanted(), 0});
    int timeout_ms = -1;
    if (!accepts || !connections.empty()) {
      auto next = accepts ? connections.front().deadline() : accept_after;
      if (!connections.empty()) next = std::min(next, connections.front().deadline());
      timeout_ms = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count());
    }
    if (poll(polled.data(), polled.size(), timeout_ms) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;

    auto connection = connections.begin();
    for (std::size_t i = 2; i < polled.size(); ++i) {
      const bool over = polled[i].revents != 0 && !connection->go_on(answer_to);
      connection = over ? connections.erase(connection) : std::next(connection);
    }
    if (polled[1].revents == 0) continue;
    const int fd = accept4(listen_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      if (connections.size() >= most_connections) connections.pop_front();
      connections.emplace_back(fd);
    } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      accept_after =
          now + std::chrono::seconds(1);  // for example no free descriptors: a retry at once would spin
    }
  }
}

}  // namespace mlk::rt
