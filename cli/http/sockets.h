// Knows the sockets that libcurl has open to a server, and finds one by its local port, because libcurl does
// not report which connection a request uses.
#pragma once

#include <map>
#include <memory>

#include <curl/curl.h>

#include "cli/http/silence.h"

namespace mlk::http {

// A socket to a server. The requests that use a Socket share its ownership, also after the socket is closed.
struct Socket {
  curl_socket_t number = CURL_SOCKET_BAD;  // CURL_SOCKET_BAD: closed
  int port = 0;                            // the local port; 0: not read yet
  Silence silence{};

  void shut_down() const;  // both directions: a reader of the socket gets end of file
};

// For one thread. Must outlive the connections of all handles that were passed to watch().
class Sockets {
 public:
  Sockets() = default;
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  void watch(CURL* easy);  // records the sockets that the handle opens from now on
  // Returns null if no open socket has this local port.
  [[nodiscard]] std::shared_ptr<Socket> with_port(int port);
  const std::map<curl_socket_t, std::shared_ptr<Socket>>& all() const { return open_; }

 private:
  static curl_socket_t on_open(void* self, curlsocktype, curl_sockaddr* address);
  static int on_close(void* self, curl_socket_t number);
  std::map<curl_socket_t, std::shared_ptr<Socket>> open_;
};

}  // namespace mlk::http
