// UNIX sockets for peers on the same host, beside TCP: the same frames, without TCP's checksums and segments.
#pragma once

#include <optional>
#include <sys/types.h>

#include "runtime/base/address.h"

namespace mlk::rt {

// The name of a listener is made from its TCP address, in the abstract name space. That belongs to the
// network namespace, as ports do, so pods cannot collide, and a name ends with its process. Any user may take
// a name or connect to it. So both ends ask the kernel for the other's user (peer_process) before they send
// anything: a process in between could forward the handshake and read everything after it. Another user who
// takes the name only causes TCP to be used.

// Whether the address belongs to this host: loopback, or one of its interfaces.
bool is_of_this_host(const SocketAddress& address);

// A socket that listens beside the TCP listener bound to `bound`. -1, with errno, if the name is taken.
int listen_locally(const SocketAddress& bound);

// The next incoming connection; -1, with errno, if there is none.
int accept_locally(int listener);

// A socket connected with the process of this user that listens beside `address`; -1: there is none.
int connect_locally(const SocketAddress& address);

// The process at the other end of a UNIX socket; nothing if it belongs to another user.
std::optional<pid_t> peer_process(int fd);

}  // namespace mlk::rt
