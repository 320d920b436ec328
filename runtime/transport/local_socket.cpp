// The names of UNIX sockets, and the users of the processes at their other ends.
#include "runtime/transport/local_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>
#include <span>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace mlk::rt {
namespace {

constexpr int backlog = 128;
// Room for a few large frames, so that the sender need not wake up for each; the kernel may grant less.
constexpr int send_buffer = 2 << 20;

std::span<const std::byte> host_bytes(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 1));
  }
  if (address->sa_family == AF_INET6) {
    return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 1));
  }
  return {};
}

std::uint16_t port_of(const SocketAddress& address) {
  return ntohs(
      reinterpret_cast<const sockaddr_in*>(address.get())->sin_port);  // IPv6 has the port at the same place
}

bool is_any(const SocketAddress& address) {
  const auto host = host_bytes(address.get());
  return std::all_of(host.begin(), host.end(), [](std::byte b) { return b == std::byte{0}; });
}

// "mlk-runtime 127.0.0.1:7070"; for a process that listens on all interfaces the host is "*".
SocketAddress name_beside(const SocketAddress& address, bool all_interfaces) {
  const std::string name =
      "mlk-runtime " + (all_interfaces ? "*:" + std::to_string(port_of(address)) : to_string(address));
  SocketAddress result;
  auto* local = reinterpret_cast<sockaddr_un*>(&result.storage);
  local->sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof local->sun_path - 1);
  std::memcpy(local->sun_path + 1, name.data(), size);  // the first byte is 0: an abstract name
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return result;
}

int with_large_buffer(int fd) {
  if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
  return fd;
}

int open_socket() {
  return with_large_buffer(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Closes the descriptor, leaves errno unchanged and returns -1.
int close_keeping_errno(int fd) {
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

}  // namespace

bool is_of_this_host(const SocketAddress& address) {
  const auto host = host_bytes(address.get());
  if (host.size() == 4 && host[0] == std::byte{127}) return true;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != address.storage.ss_family) continue;
    if (std::ranges::equal(host_bytes(entry->ifa_addr), host)) return true;
  }
  return false;
}

int listen_locally(const SocketAddress& bound) {
  const SocketAddress name = name_beside(bound, is_any(bound));
  const int fd = open_socket();
  if (fd < 0) return -1;
  if (::bind(fd, name.get(), name.length) != 0 || ::listen(fd, backlog) != 0) return close_keeping_errno(fd);
  return fd;
}

int accept_locally(int listener) {
  return with_large_buffer(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

int connect_locally(const SocketAddress& address) {
  for (const bool all_interfaces : {false, true}) {
    const SocketAddress name = name_beside(address, all_interfaces);
    const int fd = open_socket();
    if (fd < 0) return -1;
    if (::connect(fd, name.get(), name.length) == 0 && peer_process(fd)) return fd;
    ::close(fd);
  }
  return -1;
}

std::optional<pid_t> peer_process(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid()) return {};
  return peer.pid;
}

}  // namespace mlk::rt
