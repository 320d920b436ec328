// Sockets that others connect to.
#pragma once

#include <chrono>
#include <functional>

#include "runtime/base/address.h"

namespace mlk::rt {

// Listens at a literal address, or with a name at the port on all interfaces; tries again for `patience` if
// another process still holds it. The caller owns the descriptor, which does not block. bound(descriptor) is
// called when the address is ours, and before anybody can connect. Throws Failure.
int listen_at(const HostPort& where, std::chrono::milliseconds patience,
              const std::function<void(int)>& bound = {});

}  // namespace mlk::rt
