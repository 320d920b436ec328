// Connections whose client has not shown the token yet: which user has opened them, and which connection is
// closed when there are too many.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <sys/types.h>

namespace mlk::local {

// The user whose process has opened the connection that ends in this socket. nullopt if the user is unknown,
// because the client has closed the connection or does not use the loopback of this machine, or because the
// kernel does not report the user.
std::optional<uid_t> user_of_peer(int socket);

// The connections of the owner of the cluster (Side::ours) and those of other users each have a limit. A
// connection over the limit closes the oldest connection of the same side. So another user who only opens
// connections does not lock out the owner. Thread-safe.
class UnauthenticatedConnections {
 public:
  enum class Side { ours, others };

  explicit UnauthenticatedConnections(std::size_t most_of_a_side) : most_(most_of_a_side) {}

  // Registers the socket until `leave`. The caller closes the socket only after `leave`.
  void enter(int socket, Side side);
  void leave(int socket);

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::deque<int> ours_, others_;  // the oldest first
};

}  // namespace mlk::local
