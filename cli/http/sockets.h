// The sockets that libcurl has open to a server, found again by the local port: libcurl does not tell which
// of its connections a request goes over.
#pragma once

#include <map>
#include <memory>

#include <curl/curl.h>

#include "cli/http/silence.h"

namespace mlk::http {

// One of them. Requests that went over it keep it beyond its end.
struct Socket {
  curl_socket_t number = CURL_SOCKET_BAD;  // CURL_SOCKET_BAD: it is closed
  int port = 0;                            // local; 0: not asked for yet
  Silence silence{};

  void shut_down() const;  // both ways: whoever reads it sees its end
};

// For one thread. Must outlive the connections of the handles that it was given to.
class Sockets {
 public:
  Sockets() = default;
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  void watch(CURL* easy);  // the sockets that the handle opens are known from then on
  // Null if there is none.
  [[nodiscard]] std::shared_ptr<Socket> with_port(int port);
  const std::map<curl_socket_t, std::shared_ptr<Socket>>& all() const { return open_; }

 private:
  static curl_socket_t on_open(void* self, curlsocktype, curl_sockaddr* address);
  static int on_close(void* self, curl_socket_t number);
  std::map<curl_socket_t, std::shared_ptr<Socket>> open_;
};

}  // namespace mlk::http
