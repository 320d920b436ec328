// Listening sockets.
#pragma once

#include <chrono>
#include <functional>

#include "runtime/base/address.h"

namespace mlk::rt {

// Listens at a literal address; for a name, at its port on all interfaces. While another process holds the
// address, tries again for `patience`. The caller owns the descriptor, which is non-blocking.
// bound(descriptor) is called when this process holds the address, before a peer can connect. Throws Failure.
int listen_at(const HostPort& where, std::chrono::milliseconds patience,
              const std::function<void(int)>& bound = {});

}  // namespace mlk::rt
