// The consumer's side of the transport: queues in front of the network thread, whose work is in network.cpp.
#include "runtime/transport.h"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "runtime/exit_code.h"
#include "runtime/transport_impl.h"

namespace mlk::rt {
namespace {

// Listens at a literal address, or at the port on all interfaces.
int listen_at(const HostPort& where, Milliseconds patience) {
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
  while (::bind(fd, address.get(), address.length) != 0 || ::listen(fd, 128) != 0) {
    const int error = errno;
    if (error != EADDRINUSE || std::chrono::steady_clock::now() >= deadline) {
      ::close(fd);
      throw Failure(ExitCode::internal_error,
                    "cannot listen at " + to_string(where) + ": " + std::strerror(error));
    }
    std::this_thread::sleep_for(Milliseconds(100));
  }
  return fd;
}

std::uint16_t bound_port(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
  return ntohs(v4->sin_port);  // at the same place in sockaddr_in6
}

void watch(int epoll, int fd, std::uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

Transport::Transport(Identity self, const Key& key, TransportOptions options, LogLine log)
    : impl_(std::make_unique<Impl>(std::move(self), key, options, std::move(log))) {}
Transport::~Transport() = default;

const std::string& Transport::address() const { return impl_->self_.address; }
const Identity& Transport::self() const { return impl_->self_; }
Landings& Transport::landings() { return impl_->landings_; }
void Transport::dial(PeerId peer, const std::string& host_port) { impl_->dial(peer, host_port); }
void Transport::stop_dialling(PeerId peer) { impl_->stop_dialling(peer); }
bool Transport::send(PeerId to, const Header& header, std::span<const std::byte> payload,
                     WhenFull when_full) {
  return impl_->send(to, header, payload, when_full);
}
std::optional<Event> Transport::receive(SteadyTime deadline) { return impl_->receive(deadline); }
void Transport::say_goodbye(int exit_code) { impl_->say_goodbye(exit_code); }

Transport::Impl::Impl(Identity self, const Key& key, TransportOptions options, LogLine log)
    : self_(std::move(self)),
      key_(key),
      options_(options),
      log_(std::move(log)),
      dialer_(options.retry_min, options.retry_max) {
  auto where = parse_host_port(self_.address);
  if (!where) throw Failure(ExitCode::bad_configuration, "MLK_ADDRESS is not host:port: " + self_.address);
  listen_ = listen_at(*where, options_.bind_patience);
  where->port = bound_port(listen_);
  self_.address = to_string(*where);
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  watch(epoll_, wake_, 0);
  watch(epoll_, listen_, 1);
  watch(epoll_, resolver_.fd(), 2);
  last_tick_ = std::chrono::steady_clock::now();
  thread_ = std::thread([this] { run(); });
}

Transport::Impl::~Impl() {
  stop_ = true;
  wake();
  thread_.join();
  connections_.clear();
  active_.clear();
  inbox_.clear();
  ::close(listen_);
  ::close(wake_);
  ::close(epoll_);
}

void Transport::Impl::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
}

void Transport::Impl::post(std::function<void()> command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  wake();
}

void Transport::Impl::dial(PeerId peer, const std::string& host_port) {
  const auto where = parse_host_port(host_port);
  if (!where) {
    throw Failure(ExitCode::bad_configuration,
                  "the address of " + to_string(peer) + " is not host:port: " + host_port);
  }
  post([this, peer, where = *where] { dialer_.add(peer, where, std::chrono::steady_clock::now()); });
}

void Transport::Impl::stop_dialling(PeerId peer) {
  post([this, peer] { dialer_.remove(peer); });
}

bool Transport::Impl::send(PeerId to, const Header& header, std::span<const std::byte> payload,
                           WhenFull when_full) {
  std::shared_ptr<Link> link;
  {
    const std::lock_guard lock(mutex_);
    const auto found = active_.find(to);
    if (found == active_.end()) return false;
    link = found->second;
  }
  Header full = header;
  full.sender = self_.id;
  full.incarnation = self_.incarnation;
  if (link->send(full, payload, options_.max_queued, when_full)) return true;
  post([this, id = link->id()] {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    found->second.proven = false;
    remove(id, std::chrono::steady_clock::now());
  });
  return false;
}

std::optional<Event> Transport::Impl::receive(SteadyTime deadline) {
  std::unique_lock lock(inbox_mutex_);
  while (true) {
    if (!inbox_changed_.wait_until(lock, deadline, [this] { return !inbox_.empty(); })) return {};
    Item item = std::move(inbox_.front());
    inbox_.pop_front();
    if (item.link) {
      const std::size_t left = item.link->undelivered.fetch_sub(item.size) - item.size;
      if (left < options_.max_undelivered / 2 && item.link->paused()) item.link->resume();
    }
    if (item.event.landed && item.landed_epoch != landings_.epoch()) continue;
    return std::move(item.event);
  }
}

void Transport::Impl::push(Event event) { push(Item{std::move(event), nullptr, 0, 0}); }

void Transport::Impl::push(Item item) {
  const std::lock_guard lock(inbox_mutex_);
  inbox_.push_back(std::move(item));
  inbox_changed_.notify_one();
}

void Transport::Impl::say_goodbye(int exit_code) {
  post([this, exit_code] {
    closing_ = true;
    for (auto& [id, connection] : connections_) {
      if (connection.stage == Stage::established) {
        tell(connection, MessageType::goodbye, {}, static_cast<std::uint64_t>(exit_code));
      } else {
        connection.doomed = true;
      }
    }
  });
  std::unique_lock lock(mutex_);
  all_closed_.wait_for(lock, std::chrono::seconds(1), [this] { return closed_; });
}

std::optional<int> RateLimit::admit(SteadyTime now) {
  if (now - start_ >= window_) {
    start_ = now;
    used_ = 0;
  }
  if (used_ == burst_) {
    ++left_out_;
    return {};
  }
  ++used_;
  return std::exchange(left_out_, 0);
}

}  // namespace mlk::rt
