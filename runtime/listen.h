// Sockets that others connect to.
#pragma once

#include <chrono>

#include "runtime/address.h"

namespace mlk::rt {

// Listens at a literal address, or with a name at the port on all interfaces; tries again for `patience` if
// another process still holds it. The caller owns the descriptor, which does not block. Throws Failure.
int listen_at(const HostPort& where, std::chrono::milliseconds patience);

}  // namespace mlk::rt
