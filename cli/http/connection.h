// A Connection runs one exchange after another with any servers. Without a pool, a Connection has connections
// of its own and runs in the caller's thread, which suits large bodies. With a pool, several Connections
// share connections, which suits small bodies from several threads. The class Loop (cli/http/loop.h) is for
// thousands of small exchanges with one server.
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
  // Called with each part of the body of a good answer (2xx) when the part arrives. Reply::body then stays
  // empty. If `take` returns false, the exchange ends with Failure::Kind::closed. Without a pool, `take` may
  // wait for an exchange of another Connection. Exceptions of `take` pass through exchange().
  std::function<bool(std::string_view)> take{};
  std::function<void(int)> begun{};           // called before the first `take`, with the status of the answer
  std::size_t most_bytes = 1 << 20;           // of Reply::body
  std::function<void(std::uint64_t)> sent{};  // called with the number of newly sent bytes of `body`
  bool is_long = false;  // the body is large, or `take` waits; needs a Connection without a pool
};

struct Reply {
  int status = 0;
  Headers headers;  // names in lower-case letters
  std::string body;
  Failure failure;  // why there is no answer, or only a part of one

  std::string header(std::string_view name) const;  // the first value of this name; empty: none
  bool has_status(int wanted) const { return failure.kind == Failure::Kind::none && status == wanted; }
  bool ok() const { return failure.kind == Failure::Kind::none && status >= 200 && status < 300; }
};

class ConnectionPool;

struct ConnectionOptions {
  std::string ca_pem{};           // authorities in addition to those of the system
  bool insecure = false;          // certificates are not checked
  std::function<bool()> go_on{};  // called at least once a second; false: ends the exchange (Kind::closed)
  std::chrono::seconds patience{60};       // see exchange(); other values are for tests
  std::shared_ptr<ConnectionPool> pool{};  // if not null: shared connections, and Call::take must not wait
};

// For one thread at a time. exchange() does not follow redirects, since the caller decides which servers may
// get credentials.
class Connection {
 public:
  explicit Connection(ConnectionOptions options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Waits at most 20 s for a connection. Ends an exchange that moves less than 1 KiB a second for `patience`.
  Reply exchange(const Call& call);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace mlk::http
