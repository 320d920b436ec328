// Internet addresses as text: host:port. A separate thread looks up names, since a look-up may take seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

namespace mlk::rt {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

struct HostPort {
  std::string host;  // without the brackets of IPv6
  std::uint16_t port = 0;
};

std::optional<HostPort> parse_host_port(std::string_view text);
std::string to_string(const HostPort& host_port);
std::string to_string(const SocketAddress& address);

// The address, if host is a literal address.
std::optional<SocketAddress> literal_address(const HostPort& host_port);

// Looks up names, one after the other. Keeps no cache of its own.
class Resolver {
 public:
  struct Result {
    std::uint64_t ticket = 0;
    std::vector<SocketAddress> addresses;  // empty: the name is unknown so far
  };

  Resolver();
  ~Resolver();  // does not wait for a look-up in progress
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  void look_up(std::uint64_t ticket, const HostPort& host_port);
  std::vector<Result> take_results();
  int fd() const;  // readable when there are results

 private:
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;
};

}  // namespace mlk::rt
