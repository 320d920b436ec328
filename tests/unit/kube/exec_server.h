// An API server that runs commands over WebSocket, with frames made by hand.
#pragma once

#include <arpa/inet.h>
#include <atomic>
#include <functional>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "cli/http/upgrade.h"
#include "cli/kube/login/kubeconfig.h"

// One connection after a request for an upgrade.
class ExecPeer {
 public:
  ExecPeer(int fd, std::string of_request, const std::atomic<bool>& stopping)
      : head(std::move(of_request)), fd_(fd), stopping_(stopping) {}

  const std::string head;  // of the request

  std::string header(const std::string& name) const {
    const std::size_t at = head.find(name + ": ");
    return at == head.npos ? ""
                           : head.substr(at + name.size() + 2, head.find("\r\n", at) - at - name.size() - 2);
  }
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  std::string acceptance(const std::string& protocol) const {
    return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Accept: " +
           mlk::http::accept_for(header("Sec-WebSocket-Key")) + "\r\nSec-WebSocket-Protocol: " + protocol +
           "\r\n\r\n";
  }
  void accept(const std::string& protocol = "v5.channel.k8s.io") const { send(acceptance(protocol)); }

  static std::string frame(int opcode, const std::string& payload) {
    std::string out(1, static_cast<char>(0x80 | opcode));
    const std::size_t size = payload.size();
    const int bytes = size < 126 ? 0 : size < 65536 ? 2 : 8;
    out += static_cast<char>(bytes == 0 ? size : bytes == 2 ? 126 : 127);
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(size >> (8 * i));
    return out + payload;
  }
  bool say(int channel, const std::string& text) const {
    return send(frame(2, std::string(1, static_cast<char>(channel)) + text));
  }
  void end(const std::string& status) const {
    say(3, status);
    send(frame(8, std::string("\x03\xe8", 2)));
  }
  void succeed() const { end(R"({"kind":"Status","status":"Success"})"); }
  void exit(int code) const {
    end(R"({"kind":"Status","status":"Failure","reason":"NonZeroExitCode","details":{"causes":[)"
        R"({"reason":"ExitCode","message":")" +
        std::to_string(code) + "\"}]}}");
  }

  // The payload of the next binary message; answers pings. nullopt: the connection ended.
  std::optional<std::string> hear() {
    while (true) {
      const auto start = take(2);
      if (!start) return std::nullopt;
      std::size_t size = static_cast<unsigned char>((*start)[1]) & 127u;
      if (size >= 126) {
        const auto more = take(size == 126 ? 2 : 8);
        if (!more) return std::nullopt;
        size = 0;
        for (const char c : *more) size = size << 8 | static_cast<unsigned char>(c);
      }
      const auto mask = take(4);
      auto text = mask ? take(size) : std::nullopt;
      if (!text) return std::nullopt;
      for (std::size_t i = 0; i < size; ++i) (*text)[i] = static_cast<char>((*text)[i] ^ (*mask)[i % 4]);
      const int opcode = (*start)[0] & 15;
      if (opcode == 2) return text;
      if (opcode == 8) return std::nullopt;
      if (opcode == 9) send(frame(10, *text));
    }
  }
  void hang() {
    while (!stopping_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

 private:
  std::optional<std::string> take(std::size_t size) {
    while (held_.size() - at_ < size) {
      pollfd waiting{fd_, POLLIN, 0};
      while (::poll(&waiting, 1, 10) == 0) {
        if (stopping_) return std::nullopt;
      }
      char buffer[65536];
      const ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
      if (count <= 0) return std::nullopt;
      held_.erase(0, at_);
      at_ = 0;
      held_.append(buffer, static_cast<std::size_t>(count));
    }
    at_ += size;
    return held_.substr(at_ - size, size);
  }

  const int fd_;
  const std::atomic<bool>& stopping_;
  std::string held_;
  std::size_t at_ = 0;
};

// Answers {} to every request that is not for an exec. Create clients after the server.
class ExecServer {
 public:
  explicit ExecServer(std::function<void(ExecPeer&)> script) : script_(std::move(script)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, raw, sizeof address) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, raw, &length) != 0)
      throw std::runtime_error("no port");
    config.server = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~ExecServer() {
    stopping_ = true;
    thread_.join();
    ::close(listener_);
  }
  ExecServer(const ExecServer&) = delete;
  ExecServer& operator=(const ExecServer&) = delete;

  mlk::kube::Config config;

 private:
  std::string read_head(int fd) const {
    std::string head;
    char c;
    while (!head.ends_with("\r\n\r\n") && ::recv(fd, &c, 1, 0) == 1) head += c;
    return head;
  }
  void serve() {
    while (!stopping_) {
      pollfd waiting{listener_, POLLIN, 0};
      if (::poll(&waiting, 1, 10) <= 0) continue;
      const int fd = ::accept(listener_, nullptr, nullptr);
      ExecPeer peer(fd, read_head(fd), stopping_);
      if (peer.head.find("/exec?") != std::string::npos) {
        script_(peer);
      } else {
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}");
      }
      ::close(fd);
    }
  }

  std::function<void(ExecPeer&)> script_;
  int listener_ = -1;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};
