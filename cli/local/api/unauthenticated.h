// Connections whose client has not shown the token yet: who they come from, and which of them is closed when
// there are too many.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <sys/types.h>

namespace mlk::local {

// Whose process has opened the connection that ends in this socket; nullopt if that is not known: the client
// has closed it already, is on no loopback of ours, or the kernel does not say.
std::optional<uid_t> user_of_peer(int socket);

// One too many closes the oldest of those that come from the same side, ours or that of others: a user who
// only opens connections does not lock out the one to whom the cluster belongs. Safe from any thread.
class UnauthenticatedConnections {
 public:
  enum class Side { ours, others };

  explicit UnauthenticatedConnections(std::size_t most_of_a_side) : most_(most_of_a_side) {}

  // Until `leave`. The socket is closed only after that.
  void enter(int socket, Side side);
  void leave(int socket);

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::deque<int> ours_, others_;  // the oldest first
};

}  // namespace mlk::local
