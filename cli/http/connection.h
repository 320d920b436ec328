// One exchange after another with any servers, over a connection of its own, in the thread of the caller: for
// large bodies that stream through. Or over those of a pool: for small ones, from several threads. The loop
// (cli/http/loop.h) is for thousands of small exchanges with one server.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <curl/curl.h>

#include "cli/http/failure.h"
#include "cli/http/request.h"

namespace mlk::http {

struct Call {
  std::string method = "GET";
  std::string url;  // http or https, encoded
  Headers headers{};
  std::string_view body{};  // must outlive the exchange
  // The body of a good answer (2xx), in parts as they come, and nothing of it in Reply::body. Return false
  // to stop: the exchange ends with Failure::Kind::closed. The function may itself wait for an exchange of
  // another connection. Its exceptions pass through exchange().
  std::function<bool(std::string_view)> take{};
  std::function<void(int)> begun{};           // the status of a good answer, before its first part is taken
  std::size_t most_bytes = 1 << 20;           // of Reply::body
  std::function<void(std::uint64_t)> sent{};  // bytes of `body` that have gone out, newly
  bool is_long = false;  // a connection of a pool is no place for it: it is large, or `take` waits
};

struct Reply {
  int status = 0;
  Headers headers;  // names in lower-case letters
  std::string body;
  Failure failure;  // why there is none, or only a part

  std::string header(std::string_view name) const;  // the first of this name; empty: none
  bool ok() const { return failure.kind == Failure::Kind::none && status >= 200 && status < 300; }
};

class ConnectionPool;

struct ConnectionOptions {
  std::string ca_pem{};               // authorities beside those of the system
  bool insecure = false;              // certificates are not checked
  std::function<bool()> go_on{};      // asked about once a second; false ends the exchange with Kind::closed
  std::chrono::seconds patience{60};  // with less than 1 KiB a second. Other values are for tests
  std::shared_ptr<ConnectionPool> pool{};  // its connections are used; Call::take must not wait then
};

// For one thread at a time. Redirects are answers: the caller decides where credentials may go.
class Connection {
 public:
  explicit Connection(ConnectionOptions options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Waits 20 s for a connection, and ends an exchange in which for a minute next to nothing moves.
  Reply exchange(const Call& call);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace mlk::http
