// Opens and binds sockets, and listens at them.
#include "runtime/base/listen.h"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <string>
#include <thread>
#include <unistd.h>

#include "runtime/base/exit_code.h"

namespace mlk::rt {

int listen_at(const HostPort& where, std::chrono::milliseconds patience,
              const std::function<void(int)>& bound) {
  SocketAddress address;
  if (const auto literal = literal_address(where)) {
    address = *literal;
  } else {
    auto* any = reinterpret_cast<sockaddr_in6*>(&address.storage);
    any->sin6_family = AF_INET6;
    any->sin6_port = htons(where.port);
    address.length = sizeof(sockaddr_in6);
  }
  int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 && address.storage.ss_family == AF_INET6) {  // a machine without IPv6
    auto* any = reinterpret_cast<sockaddr_in*>(&address.storage);
    *any = {};
    any->sin_family = AF_INET;
    any->sin_port = htons(where.port);
    address.length = sizeof(sockaddr_in);
    fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }
  if (fd < 0)
    throw Failure(ExitCode::internal_error, std::string("cannot open a socket: ") + std::strerror(errno));
  const int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const auto take = [&] {
    if (::bind(fd, address.get(), address.length) != 0) return false;
    if (bound) bound(fd);
    return ::listen(fd, 128) == 0;
  };
  while (!take()) {
    const int error = errno;
    if (error != EADDRINUSE || std::chrono::steady_clock::now() >= deadline) {
      ::close(fd);
      throw Failure(ExitCode::internal_error,
                    "cannot listen at " + to_string(where) + ": " + std::strerror(error));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return fd;
}

}  // namespace mlk::rt
