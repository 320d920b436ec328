// UNIX sockets for peers on the same host, beside TCP: the same frames, without its checksums and segments.
#pragma once

#include <optional>
#include <sys/types.h>

#include "runtime/base/address.h"

namespace mlk::rt {

// A listener's name is made of its TCP address, in the abstract name space: that belongs to the network
// namespace, as ports do, so pods do not meet in it, and a name goes with its process. Any user may take a
// name, or connect to one. So both ends ask the kernel who the other is (peer_process) before they say a
// word: somebody in between could pass on every byte of a handshake, and read along after it. Who takes a
// name that is not his wins nothing but that TCP is used.

// Whether the address is one of this host: loopback, or of one of its interfaces.
bool is_of_this_host(const SocketAddress& address);

// A socket that listens beside the TCP listener bound to `bound`. -1, with errno, if the name is taken.
int listen_locally(const SocketAddress& bound);

// The next of who wants to be connected; -1, with errno, without one.
int accept_locally(int listener);

// A socket that is connected with the process of this user that listens beside `address`; -1: there is none.
int connect_locally(const SocketAddress& address);

// The process at the other end of a UNIX socket; nothing if it is another user's.
std::optional<pid_t> peer_process(int fd);

}  // namespace mlk::rt
