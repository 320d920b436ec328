// Parses addresses, and runs the thread that looks up names.
#include "runtime/base/address.h"

#include <charconv>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <netdb.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace mlk::rt {
namespace {

std::vector<SocketAddress> addresses_of(const HostPort& host_port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  std::vector<SocketAddress> addresses;
  if (getaddrinfo(host_port.host.c_str(), std::to_string(host_port.port).c_str(), &hints, &list) != 0)
    return addresses;
  for (const addrinfo* entry = list; entry != nullptr && addresses.size() < 16; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(list);
  return addresses;
}

}  // namespace

std::optional<HostPort> parse_host_port(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return {};
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  HostPort result{std::string(host), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (error != std::errc() || end != port.data() + port.size()) return {};
  return result;
}

std::string to_string(const HostPort& host_port) {
  const bool bare_v6 = host_port.host.find(':') != std::string::npos;
  return (bare_v6 ? '[' + host_port.host + ']' : host_port.host) + ':' + std::to_string(host_port.port);
}

std::string to_string(const SocketAddress& address) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(address.get(), address.length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  return std::string(host) + ':' + port;
}

std::optional<SocketAddress> literal_address(const HostPort& host_port) {
  const auto addresses = addresses_of(host_port, AI_NUMERICHOST);
  if (addresses.empty()) return {};
  return addresses.front();
}

struct Resolver::Shared {
  Shared() : wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Shared() { ::close(wake); }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<std::uint64_t, HostPort>> wanted;
  std::vector<Result> results;
  bool stopped = false;
  const int wake;
};

// The thread is detached and shares ownership of `shared_`: getaddrinfo cannot be interrupted, and the
// destructor must not wait for it.
Resolver::Resolver() : shared_(std::make_shared<Shared>()) {
  std::thread([shared = shared_] { run(shared); }).detach();
}

Resolver::~Resolver() {
  const std::lock_guard lock(shared_->mutex);
  shared_->stopped = true;
  shared_->changed.notify_all();
}

void Resolver::run(const std::shared_ptr<Shared>& shared) {
  while (true) {
    std::unique_lock lock(shared->mutex);
    shared->changed.wait(lock, [&] { return shared->stopped || !shared->wanted.empty(); });
    if (shared->stopped) return;
    const auto [ticket, host_port] = shared->wanted.front();
    shared->wanted.pop_front();
    lock.unlock();
    auto addresses = addresses_of(host_port, 0);
    lock.lock();
    shared->results.push_back({ticket, std::move(addresses)});
    const std::uint64_t one = 1;
    (void)!::write(shared->wake, &one, sizeof one);
  }
}

void Resolver::look_up(std::uint64_t ticket, const HostPort& host_port) {
  const std::lock_guard lock(shared_->mutex);
  shared_->wanted.emplace_back(ticket, host_port);
  shared_->changed.notify_all();
}

std::vector<Resolver::Result> Resolver::take_results() {
  const std::lock_guard lock(shared_->mutex);
  std::uint64_t count = 0;
  (void)!::read(shared_->wake, &count, sizeof count);
  return std::exchange(shared_->results, {});
}

int Resolver::fd() const { return shared_->wake; }

}  // namespace mlk::rt
