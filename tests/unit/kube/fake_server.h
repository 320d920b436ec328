// Servers that play the API server: FakeServer over HTTP or TLS, RawServer for connections that misbehave.
#pragma once

#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <httplib.h>

#include "cli/http/url.h"
#include "cli/kube/login/kubeconfig.h"
#include "cli/local/api/connection_threads.h"
#include "tests/unit/kube/certificates.h"

// Set the handlers of `http`, then start(). Create clients after the server, so that they are destroyed
// before it.
class FakeServer {
 public:
  FakeServer() : http(std::make_unique<httplib::Server>()) { set_up(); }
  explicit FakeServer(const Certificate& certificate, X509_STORE* client_authorities = nullptr)
      : http(std::make_unique<httplib::SSLServer>(certificate.x509.get(), certificate.key.get(),
                                                  client_authorities)),
        scheme_("https") {
    set_up();
  }
  ~FakeServer() {
    stopping = true;
    http->stop();
    if (thread_.joinable()) thread_.join();
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  // Returns the URL of the server. Throws std::runtime_error if this machine does not have the address.
  std::string listen(const std::string& address = "127.0.0.1") {
    const int port = http->bind_to_any_port(address);
    if (port <= 0) throw std::runtime_error("no port");
    ::listen(socket_, 512);  // with httplib's queue of five, many clients at once wait for seconds
    thread_ = std::thread([this] { http->listen_after_bind(); });
    while (!http->is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return scheme_ + "://" + mlk::http::in_url(address) + ":" + std::to_string(port);
  }

  mlk::kube::Config start() {
    mlk::kube::Config config;
    config.server = listen();
    config.source = "/home/me/.kube/config";
    config.user_source = "/home/me/.kube/config";
    config.context = "test";
    config.user = "researcher";
    config.name_space = "default";
    return config;
  }

  // For handlers that never answer.
  void hang() const {
    while (!stopping) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  std::unique_ptr<httplib::Server> http;
  std::atomic<bool> stopping = false;

 private:
  void set_up() {
    http->new_task_queue = [] { return new mlk::local::ConnectionThreads(256); };
    http->set_tcp_nodelay(true);
    http->set_socket_options([this](socket_t socket) { socket_ = socket; });
  }

  std::string scheme_ = "http";
  int socket_ = -1;  // the socket of httplib
  std::thread thread_;
};

inline void answer(httplib::Response& response, int status, const std::string& body) {
  response.status = status;
  response.set_content(body, "application/json");
}

// The body of an error as the API server writes it.
inline std::string status_body(int code, const std::string& reason, const std::string& message) {
  return R"({"kind":"Status","apiVersion":"v1","status":"Failure","code":)" + std::to_string(code) +
         R"(,"reason":")" + reason + R"(","message":")" + message + "\"}";
}

// Reads one request after the other, and sends the text that `script` returns for the n-th request (from 0).
// Closes the connection after an empty text and after a text that does not end in "\r\n\r\n{}".
class RawServer {
 public:
  explicit RawServer(std::function<std::string(int, const std::string&)> script)
      : script_(std::move(script)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      throw std::runtime_error("no port");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~RawServer() {
    stopping_ = true;
    thread_.join();
    ::close(listener_);
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  mlk::kube::Config config() const {
    mlk::kube::Config config;
    config.server = "http://127.0.0.1:" + std::to_string(port_);
    return config;
  }
  int requests() const { return requests_; }

  static std::string empty_object() { return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"; }

 private:
  bool readable(int fd) const {
    while (!stopping_) {
      pollfd waiting{fd, POLLIN, 0};
      if (::poll(&waiting, 1, 10) > 0) return true;
    }
    return false;
  }
  // Reads one head and the body that the head announces by Content-Length.
  bool read_request(int fd, std::string& text) const {
    text.clear();
    char buffer[4096];
    while (readable(fd)) {
      const ssize_t count = ::recv(fd, buffer, sizeof buffer, 0);
      if (count <= 0) return false;
      text.append(buffer, static_cast<std::size_t>(count));
      const std::size_t head = text.find("\r\n\r\n");
      if (head == std::string::npos) continue;
      const std::size_t field = text.find("Content-Length: ");
      const std::size_t body = field < head ? std::stoul(text.substr(field + 16)) : 0;
      if (text.size() >= head + 4 + body) return true;
    }
    return false;
  }
  void serve() {
    while (readable(listener_)) {
      const int fd = ::accept(listener_, nullptr, nullptr);
      std::string request;
      while (read_request(fd, request)) {
        const std::string out = script_(requests_++, request);
        std::size_t sent = 0;
        while (sent < out.size()) {
          const ssize_t count = ::send(fd, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
          if (count <= 0) break;
          sent += static_cast<std::size_t>(count);
        }
        if (!out.ends_with("\r\n\r\n{}")) break;
      }
      ::close(fd);
    }
  }

  std::function<std::string(int, const std::string&)> script_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> requests_ = 0;
  std::thread thread_;
};

// Waits until the condition is true, at most ten seconds.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}
