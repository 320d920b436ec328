// A WebSocket over a Dialed connection: the handshake, frames, and signs of life.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/http/dialed.h"
#include "cli/http/upgrade.h"

namespace mlk::http {

// Other values are for tests.
struct WebSocketTimes {
  std::chrono::milliseconds ping{5'000};
  std::chrono::milliseconds silent{60'000};  // without any byte from the server: the connection is dead
};

// What the server answers instead of the upgrade, or why there is no answer.
struct Upgrade {
  Failure failure{};
  int status = 0;          // 101: the socket is open
  std::string body{};      // of another answer, at most 64 KiB
  std::string protocol{};  // the one that the server has chosen
};

// For one thread.
class WebSocket {
 public:
  // `dialed` is connected, and outlives the socket. `go_on` is called at least once a second.
  WebSocket(Dialed& dialed, std::function<bool()> go_on, WebSocketTimes times = {});
  ~WebSocket();
  WebSocket(const WebSocket&) = delete;
  WebSocket& operator=(const WebSocket&) = delete;

  [[nodiscard]] Upgrade open(const std::vector<std::string>& protocols);

  // Calls `take` with each binary message of at most 16 MiB; `take` may wait, and its exceptions pass
  // through. Calls `give` when all messages are sent: it returns the next one, or an empty text if there is
  // none now. Returns Failure::Kind::none when the server has closed the socket in good order.
  using Take = std::function<void(std::string_view)>;
  using Give = std::function<std::string()>;
  [[nodiscard]] Failure run(const Take& take, const Give& give);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace mlk::http
