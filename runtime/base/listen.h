// Listening sockets.
#pragma once

#include <chrono>
#include <functional>

#include "runtime/base/address.h"

namespace mlk::rt {

// If the host is an IP address, listens there. If it is a name, listens at the port on all interfaces. While
// another process holds the address, tries again for `patience`. The caller owns the descriptor, which is
// non-blocking. Calls bound(descriptor) when this process holds the address, before a peer can connect.
// Throws Failure.
int listen_at(const HostPort& where, std::chrono::milliseconds patience,
              const std::function<void(int)>& bound = {});

}  // namespace mlk::rt
