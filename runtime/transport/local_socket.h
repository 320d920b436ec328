// UNIX sockets for peers on the same host, beside TCP: the same frames, without TCP's checksums and segments.
#pragma once

#include <optional>
#include <sys/types.h>

#include "runtime/base/address.h"

namespace mlk::rt {

// The name of a listener is made from its TCP address, in the abstract name space. This name space belongs to
// the network namespace, as ports do, so pods cannot collide, and a name is free when its process ends. Any
// user may take a name or connect to it. So both ends ask the kernel for the user at the other end
// (peer_process) before they send anything: otherwise a process of another user between them could forward
// the handshake and read everything after it. If another user takes the name, the peers just use TCP.

// Whether the address belongs to this host: loopback, or one of its interfaces.
bool is_of_this_host(const SocketAddress& address);

// A socket that listens beside the TCP listener at the address `bound`. Returns -1, with errno, if another
// process holds the name.
int listen_locally(const SocketAddress& bound);

// Returns the next incoming connection, or -1, with errno, if no connection waits.
int accept_locally(int listener);

// Returns a socket that is connected to the process beside `address`, or -1 if no process of this user
// listens there.
int connect_locally(const SocketAddress& address);

// Returns the process at the other end of a UNIX socket, or nothing if that process belongs to another user.
std::optional<pid_t> peer_process(int fd);

}  // namespace mlk::rt
