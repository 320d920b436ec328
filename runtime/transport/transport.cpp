// The public side of the transport, which runs in the threads of its callers. The loop is in network.cpp.
#include "runtime/transport/transport.h"

#include <ctime>
#include <utility>

#include "runtime/base/exit_code.h"
#include "runtime/transport/transport_impl.h"

namespace mlk::rt {
namespace {

std::chrono::nanoseconds read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

std::chrono::nanoseconds time_suspended() { return read_clock(CLOCK_BOOTTIME) - read_clock(CLOCK_MONOTONIC); }

Transport::Transport(Identity self, const Key& key, const TransportOptions& options, LogLine log)
    : impl_(std::make_unique<Impl>(std::move(self), key, options, std::move(log))) {}
Transport::~Transport() = default;

const std::string& Transport::address() const { return impl_->self_.address; }
const Identity& Transport::self() const { return impl_->self_; }
PostedReceives& Transport::posted_receives() { return impl_->posted_receives_; }
void Transport::dial(PeerId peer, const std::string& host_port) { impl_->dial(peer, host_port); }
bool Transport::send(PeerId to, const Header& header, std::span<const std::byte> payload, WhenFull when_full,
                     std::optional<std::uint32_t> checksum) {
  return impl_->send(to, header, payload, when_full, checksum);
}
bool Transport::has_room(PeerId to) { return impl_->has_room(to); }
void Transport::count_late() { ++impl_->late_; }
std::uint64_t Transport::late_messages() const { return impl_->late_; }
std::size_t Transport::held_bytes() const { return impl_->held_bytes(); }
std::optional<Event> Transport::receive(SteadyTime deadline) { return impl_->receive(deadline); }
void Transport::nudge() { impl_->nudge(); }
void Transport::send_goodbye(int exit_code) { impl_->send_goodbye(exit_code); }

Transport::Impl::Impl(Identity self, const Key& key, const TransportOptions& options, LogLine log)
    : self_(std::move(self)),
      key_(key),
      options_(options),
      log_(std::move(log)),
      loop_({.next = [this] { return next_round(); },
             .serve = [this](std::span<const epoll_event> events) { serve_round(events); }}),
      dialer_(options.retry_min, options.retry_max) {
  auto where = parse_host_port(self_.address);
  if (!where) throw Failure(ExitCode::bad_configuration, "MLK_ADDRESS is not host:port: " + self_.address);
  acceptor_ = std::make_unique<Acceptor>(*where, options_.bind_patience, options_.unix_sockets);
  where->port = acceptor_->port();
  self_.address = to_string(*where);
  acceptor_->watch(loop_);
  loop_.watch(resolver_.fd(), id_of_resolver);
  if (acceptor_->local_name_taken())
    log_("another process holds the UNIX socket beside " + self_.address + ": peers of this host use TCP");
  last_tick_ = std::chrono::steady_clock::now();
  suspended_at_tick_ = options_.suspended();
  loop_.start();
}

Transport::Impl::~Impl() {
  loop_.stop();
  connections_.clear();
  given_up_.clear();
  active_.clear();
  inbox_.clear();
}

void Transport::Impl::post(std::function<void()> command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  loop_.wake();
}

void Transport::Impl::dial(PeerId peer, const std::string& host_port) {
  const auto where = parse_host_port(host_port);
  if (!where) {
    throw Failure(ExitCode::bad_configuration,
                  "the address of " + to_string(peer) + " is not host:port: " + host_port);
  }
  post([this, peer, where = *where] { dialer_.add(peer, where, std::chrono::steady_clock::now()); });
}

std::shared_ptr<Link> Transport::Impl::active(PeerId peer) {
  const std::lock_guard lock(mutex_);
  const auto found = active_.find(peer);
  return found == active_.end() ? nullptr : found->second;
}

bool Transport::Impl::send(PeerId to, const Header& header, std::span<const std::byte> payload,
                           WhenFull when_full, std::optional<std::uint32_t> checksum) {
  const auto link = active(to);
  if (!link) return false;
  Header full = header;
  full.sender = self_.id;
  full.incarnation = self_.incarnation;
  const auto try_to_send = [&] {
    return posted_receives_.sending([&] {
      return link->send(full, payload, when_full == WhenFull::wait ? 0 : options_.credit, checksum);
    });
  };
  auto sent = try_to_send();
  while (sent == Link::Sent::full && when_full == WhenFull::wait) {
    loop_.run_until(SteadyTime::max(), [&] { return link->has_room(); });
    sent = try_to_send();
  }
  if (sent == Link::Sent::yes) return true;
  post([this, id = link->id()] {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    found->second.proven = false;
    remove(id, std::chrono::steady_clock::now());
  });
  return false;
}

bool Transport::Impl::has_room(PeerId peer) {
  const auto link = active(peer);
  return !link || link->has_room();
}

std::size_t Transport::Impl::held_bytes() {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [peer, account] : accounts_) bytes += account->bytes;
  for (const auto& [peer, link] : active_) bytes += link->queued_bytes();
  return bytes;
}

bool Transport::Impl::inbox_empty() {
  const std::lock_guard lock(inbox_mutex_);
  return inbox_.empty();
}

std::optional<Event> Transport::Impl::receive(SteadyTime deadline) {
  while (true) {
    if (inbox_empty()) loop_.run_until(deadline, [this] { return nudged_ || !inbox_empty(); });
    std::unique_lock lock(inbox_mutex_);
    if (inbox_.empty()) {
      nudged_ = false;
      return {};
    }
    Item item = std::move(inbox_.front());
    inbox_.pop_front();
    lock.unlock();
    if (item.account) {
      const std::size_t left = item.account->bytes.fetch_sub(item.size) - item.size;
      if (left < options_.credit / 2 && item.account->paused.exchange(false)) {
        post([this, peer = item.event.peer] { go_on_reading(peer); });
      }
    }
    if (!item.event.in_posted_buffer || item.posted_epoch == posted_receives_.epoch())
      return std::move(item.event);
    ++late_;
  }
}

void Transport::Impl::nudge() {
  nudged_ = true;
  loop_.wake();
}

void Transport::Impl::push(Event event) { push(Item{std::move(event), nullptr, 0, 0}); }

void Transport::Impl::push_down(PeerId peer, std::uint64_t incarnation, bool proven) {
  push(Event{.kind = Event::Kind::down, .peer = peer, .incarnation = incarnation, .proven = proven});
}

void Transport::Impl::push(Item item) {
  const std::lock_guard lock(inbox_mutex_);
  inbox_.push_back(std::move(item));
}

void Transport::Impl::send_goodbye(int exit_code) {
  post([this, exit_code] {
    closing_ = true;
    for (auto& [id, connection] : connections_) {
      if (connection.stage == Stage::established) {
        send_control(connection, MessageType::goodbye, {}, static_cast<std::uint64_t>(exit_code));
      } else {
        connection.doomed = true;
      }
    }
  });
  loop_.run_until(std::chrono::steady_clock::now() + std::chrono::seconds(1),
                  [this] { return closed_.load(); });
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
