// The network thread of the transport: accepts, dials, shakes hands, keeps watch over silence.
#include <algorithm>
#include <array>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "runtime/transport_impl.h"

namespace mlk::rt {
namespace {

constexpr Milliseconds tick_interval{100};
constexpr std::uint8_t flag_replaced = 1;  // of goodbye: a newer incarnation of the receiver is known

// Lost power is noticed by the kernel, too, when bytes stay unanswered.
void tune(int fd) {
  const int on = 1, idle = 10, interval = 5, probes = 3;
  const unsigned unanswered_ms = 15000;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

// Whether an end with this error shows that nobody is there any more, rather than that the way is cut.
bool proves_death(int send_error) {
  return send_error == 0 || send_error == ECONNRESET || send_error == EPIPE || send_error == ECONNREFUSED;
}

}  // namespace

void Transport::Impl::run() {
  std::array<epoll_event, 64> events;
  while (!stop_) {
    auto now = std::chrono::steady_clock::now();
    auto until = tick_interval;
    if (const auto next = dialer_.next_round(); next && !closing_) {
      until = std::clamp(std::chrono::ceil<Milliseconds>(*next - now), Milliseconds(0), tick_interval);
    }
    const int count =
        epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), static_cast<int>(until.count()));
    now = std::chrono::steady_clock::now();
    for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(std::max(count, 0)))) {
      handle(event.data.u64, event.events, now);
    }
    run_commands();
    if (!closing_) start_rounds(now);
    if (now - last_tick_ >= tick_interval) tick(now);
  }
}

void Transport::Impl::run_commands() {
  std::vector<std::function<void()>> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands) command();
}

void Transport::Impl::handle(std::uint64_t id, std::uint32_t events, SteadyTime now) {
  if (id == 0) {
    std::uint64_t count;
    (void)!::read(wake_, &count, sizeof count);
    return;
  }
  if (id == 1) return accept_all(now);
  if (id == 2) {
    for (const auto& [ticket, addresses] : resolver_.take_results()) {
      const auto found = look_ups_.find(ticket);
      if (found == look_ups_.end()) continue;
      const PeerId peer = found->second;
      look_ups_.erase(found);
      start_round(peer, addresses, now);
    }
    return;
  }
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (connection.doomed) return remove(id, now);
  if (connection.stage == Stage::connecting) {
    if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) finish_connect(connection);
  } else {
    if (events & EPOLLOUT) connection.link->flush();
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP)) {
      Link::Receiver receiver;
      receiver.length_limit =
          connection.stage == Stage::established ? options_.max_payload : handshake_payload_limit;
      receiver.place = [&](const Header& header) -> std::optional<Landings::Ticket> {
        if (connection.stage != Stage::established) return {};
        return landings_.claim({connection.peer, header.type, header.generation, header.clock, header.key},
                               header.length);
      };
      receiver.deliver = [&](Link::Frame&& frame) {
        const bool go_on = on_frame(connection, std::move(frame));
        receiver.length_limit =
            connection.stage == Stage::established ? options_.max_payload : handshake_payload_limit;
        return go_on;
      };
      const bool was_stranger = connection.stage != Stage::established;
      const Link::ReadEnd end = connection.link->read(receiver, landings_);
      if (end == Link::ReadEnd::fault && !connection.doomed) {
        refuse(connection, describe(connection.link->fault()));
        connection.proven = false;
      } else if (end == Link::ReadEnd::end_of_stream || end == Link::ReadEnd::reset) {
        connection.doomed = true;
        // After a silence the other host may only have given the connection up.
        connection.proven = !connection.silent && proves_death(connection.link->send_error());
        if (was_stranger && connection.dialled) connection.refused = end == Link::ReadEnd::reset;
      } else if (end == Link::ReadEnd::unproven_loss) {
        connection.doomed = true;
        connection.proven = false;
      }
    }
  }
  if (connection.doomed) remove(id, now);
}

void Transport::Impl::refuse(Connection& connection, std::string_view why) {
  connection.doomed = true;
  if (const auto left_out = complaints_.admit(std::chrono::steady_clock::now())) {
    std::string line = "connection with " + connection.link->remote() + " closed: " + std::string(why);
    if (*left_out > 0) line += " (and " + std::to_string(*left_out) + " others before it)";
    log_(line);
  }
}

void Transport::Impl::accept_all(SteadyTime now) {
  while (!closing_) {
    SocketAddress remote;
    remote.length = sizeof remote.storage;
    const int fd = accept4(listen_, reinterpret_cast<sockaddr*>(&remote.storage), &remote.length,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        // Would be reported again at once: look away until the next tick.
        epoll_ctl(epoll_, EPOLL_CTL_DEL, listen_, nullptr);
        accepting_ = false;
      }
      return;
    }
    drop_oldest_stranger(now);
    tune(fd);
    const std::uint64_t id = next_id_++;
    Connection connection;
    connection.link = std::make_shared<Link>(fd, epoll_, id, to_string(remote));
    connection.opened = connection.last_heard = connection.last_sent = now;
    connections_.emplace(id, std::move(connection));
  }
}

void Transport::Impl::drop_oldest_stranger(SteadyTime now) {
  std::size_t strangers = 0;
  std::uint64_t oldest = 0;
  for (const auto& [id, connection] : connections_) {
    if (connection.dialled || connection.stage == Stage::established) continue;
    if (strangers++ == 0) oldest = id;  // ids grow with time
  }
  if (strangers >= options_.max_strangers) remove(oldest, now);
}

void Transport::Impl::start_rounds(SteadyTime now) {
  for (const PeerId peer : dialer_.due(now)) {
    const HostPort where = *dialer_.find(peer);
    if (const auto literal = literal_address(where)) {
      start_round(peer, {*literal}, now);
    } else {
      look_ups_[next_look_up_] = peer;
      resolver_.look_up(next_look_up_++, where);
    }
  }
}

void Transport::Impl::start_round(PeerId peer, const std::vector<SocketAddress>& addresses, SteadyTime now) {
  if (dialer_.find(peer) == nullptr || closing_) return;
  dialer_.attempts(peer, addresses.size(), now);
  for (const SocketAddress& address : addresses) open_attempt(peer, address, now);
}

void Transport::Impl::open_attempt(PeerId peer, const SocketAddress& address, SteadyTime now) {
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    dialer_.attempt_over(peer, Dialer::Outcome::failed, now);
    return;
  }
  tune(fd);
  const int outcome = ::connect(fd, address.get(), address.length) == 0 ? 0 : errno;
  const std::uint64_t id = next_id_++;
  Connection connection;
  connection.link = std::make_shared<Link>(fd, epoll_, id, to_string(address));
  connection.stage = Stage::connecting;
  connection.dialled = true;
  connection.peer = peer;
  connection.opened = connection.last_heard = connection.last_sent = now;
  connection.link->want_write();
  connections_.emplace(id, std::move(connection));
  if (outcome != 0 && outcome != EINPROGRESS) {
    connections_.at(id).refused = outcome == ECONNREFUSED;
    remove(id, now);
  }
}

void Transport::Impl::finish_connect(Connection& connection) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(connection.link->fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    connection.doomed = true;
    connection.refused = error == ECONNREFUSED || error == ECONNRESET;
    return;
  }
  connection.link->flush();
  connection.stage = Stage::await_challenge;
  connection.ours = {self_.id, self_.incarnation, self_.address, random_nonce()};
  tell(connection, MessageType::hello, hello_payload(connection.ours));
}

void Transport::Impl::tell(Connection& connection, MessageType type, std::span<const std::byte> payload,
                           std::uint64_t clock, std::uint8_t flags) {
  Header header;
  header.type = type;
  header.sender = self_.id;
  header.incarnation = self_.incarnation;
  header.clock = clock;
  header.flags = flags;
  // Small and rare: let it through whatever is queued.
  connection.link->send(header, payload, ~std::size_t{0}, WhenFull::refuse);
  connection.last_sent = std::chrono::steady_clock::now();
}

bool Transport::Impl::on_frame(Connection& connection, Link::Frame&& frame) {
  connection.last_heard = std::chrono::steady_clock::now();
  if (connection.stage != Stage::established) return on_handshake(connection, frame);
  const Header& header = frame.header;
  if (header.sender != connection.peer || header.incarnation != connection.theirs.incarnation) {
    refuse(connection, "a message in the name of somebody else");
    return false;
  }
  if (connection.silent) {
    connection.silent = false;
    dialer_.connected(connection.peer);
    push(Event{Event::Kind::audible, connection.peer, header.incarnation, {}, false, {}, {}, false});
  }
  if (header.type == MessageType::heartbeat) return true;
  if (header.type == MessageType::goodbye) {
    const auto kind = header.flags & flag_replaced ? Event::Kind::replaced : Event::Kind::goodbye;
    push(Event{kind, connection.peer, header.incarnation, {}, true, header, {}, false});
    connection.doomed = true;
    return false;
  }
  return deliver(connection, std::move(frame));
}

bool Transport::Impl::deliver(Connection& connection, Link::Frame&& frame) {
  Link& link = *connection.link;
  Item item;
  item.size = header_size + frame.payload.size();
  item.link = connection.link;
  item.landed_epoch = frame.landed_epoch;
  item.event =
      Event{Event::Kind::message,     connection.peer, frame.header.incarnation, {}, false, frame.header,
            std::move(frame.payload), frame.landed};
  const std::size_t waiting = link.undelivered.fetch_add(item.size) + item.size;
  push(std::move(item));
  if (waiting > options_.max_undelivered) {
    link.pause();
    // The consumer may have emptied the queue in between, and then nobody else would resume.
    if (link.undelivered.load() < options_.max_undelivered / 2) link.resume();
  }
  return true;
}

bool Transport::Impl::on_handshake(Connection& connection, const Link::Frame& frame) {
  switch (connection.stage) {
    case Stage::await_hello: {
      const auto dialler = read_hello(frame.header, frame.payload);
      if (!dialler || dialler->id == self_.id) {
        refuse(connection, "not a hello");
        return false;
      }
      connection.theirs = *dialler;
      connection.peer = dialler->id;
      connection.ours = {self_.id, self_.incarnation, self_.address, random_nonce()};
      connection.stage = Stage::await_proof;
      tell(connection, MessageType::challenge,
           challenge_payload(connection.ours,
                             prove(key_, Side::listener, self_.run, *dialler, connection.ours)));
      return true;
    }
    case Stage::await_challenge: {
      const auto challenge = read_challenge(frame.header, frame.payload);
      if (!challenge) {
        refuse(connection, "not a challenge");
        return false;
      }
      connection.theirs = challenge->listener;
      const Digest expected = prove(key_, Side::listener, self_.run, connection.ours, connection.theirs);
      if (!equal_in_constant_time(expected, challenge->proof)) {
        refuse(connection, "it does not know the key of the run");
        return false;
      }
      if (challenge->listener.id != connection.peer) {
        refuse(connection,
               "it is " + to_string(challenge->listener.id) + ", not " + to_string(connection.peer));
        return false;
      }
      tell(connection, MessageType::proof,
           proof_payload(prove(key_, Side::dialler, self_.run, connection.ours, connection.theirs)));
      return promote(connection);
    }
    case Stage::await_proof: {
      const auto proof = read_proof(frame.payload);
      const Digest expected = prove(key_, Side::dialler, self_.run, connection.theirs, connection.ours);
      if (frame.header.type != MessageType::proof || !proof || !equal_in_constant_time(expected, *proof)) {
        refuse(connection, "it does not know the key of the run");
        return false;
      }
      return promote(connection);
    }
    default:
      return false;
  }
}

// The peer has proved itself: this is its connection from now on.
bool Transport::Impl::promote(Connection& connection) {
  const PeerId peer = connection.peer;
  const std::uint64_t incarnation = connection.theirs.incarnation;
  if (fenced_[peer].contains(incarnation)) {
    tell(connection, MessageType::goodbye, {}, 0, flag_replaced);
    refuse(connection, "an older incarnation of " + to_string(peer));
    return false;
  }
  if (Connection* older = established(peer)) retire(*older, older->theirs.incarnation != incarnation);
  const auto last = last_incarnation_.find(peer);
  if (last != last_incarnation_.end() && last->second != incarnation) {
    auto& fenced = fenced_[peer];
    if (fenced.size() >= 256) fenced.erase(fenced.begin());
    fenced.insert(last->second);
    if (unproven_.contains(peer)) push(Event{Event::Kind::down, peer, last->second, {}, true, {}, {}, false});
  }
  unproven_.erase(peer);
  last_incarnation_[peer] = incarnation;
  connection.stage = Stage::established;
  dialer_.connected(peer);
  for (auto& [id, other] : connections_) {  // attempts at the peer's other addresses
    if (other.stage != Stage::established && other.dialled && other.peer == peer) other.doomed = true;
  }
  {
    const std::lock_guard lock(mutex_);
    active_[peer] = connection.link;
  }
  push(Event{Event::Kind::up, peer, incarnation, connection.theirs.address, false, {}, {}, false});
  return true;
}

void Transport::Impl::retire(Connection& older, bool other_incarnation) {
  if (other_incarnation) tell(older, MessageType::goodbye, {}, 0, flag_replaced);
  older.stage = Stage::await_hello;  // no longer the peer's connection: its end is not news
  older.doomed = true;
  push(Event{Event::Kind::down, older.peer, older.theirs.incarnation, {}, other_incarnation, {}, {}, false});
}

Transport::Impl::Connection* Transport::Impl::established(PeerId peer) {
  for (auto& [id, connection] : connections_) {
    if (connection.stage == Stage::established && connection.peer == peer) return &connection;
  }
  return nullptr;
}

void Transport::Impl::remove(std::uint64_t id, SteadyTime now) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const Connection connection = std::move(found->second);
  connections_.erase(found);
  const bool was_established = connection.stage == Stage::established;
  if (was_established) {
    {
      const std::lock_guard lock(mutex_);
      const auto active = active_.find(connection.peer);
      if (active != active_.end() && active->second == connection.link) active_.erase(active);
    }
    if (!connection.proven) unproven_.insert(connection.peer);
    push(Event{Event::Kind::down,
               connection.peer,
               connection.theirs.incarnation,
               {},
               connection.proven,
               {},
               {},
               false});
    dialer_.lost(connection.peer, now);
  } else if (connection.dialled) {
    const auto outcome = connection.refused ? Dialer::Outcome::refused : Dialer::Outcome::failed;
    if (dialer_.attempt_over(connection.peer, outcome, now)) {
      if (unproven_.erase(connection.peer) > 0) {
        push(Event{
            Event::Kind::down, connection.peer, last_incarnation_[connection.peer], {}, true, {}, {}, false});
      }
      // It was dialled because it is silent, and nobody listens there: what is left is half a connection.
      if (Connection* half = established(connection.peer)) half->doomed = true;
    }
  }
  connection.link->close();
}

void Transport::Impl::tick(SteadyTime now) {
  // After a pause of this process itself (stopped, swapped out) the peers' bytes still lie in the sockets.
  const bool was_away = now - last_tick_ > std::chrono::seconds(1);
  last_tick_ = now;
  if (!accepting_) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = 1;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, listen_, &event);
    accepting_ = true;
  }
  std::vector<std::uint64_t> ended;
  for (auto& [id, connection] : connections_) {
    if (connection.doomed) {
      ended.push_back(id);
    } else if (connection.stage != Stage::established) {
      if (now - connection.opened > options_.handshake_timeout) ended.push_back(id);
    } else {
      if (was_away || connection.link->paused()) connection.last_heard = now;
      if (now - connection.last_sent >= options_.heartbeat && !closing_)
        tell(connection, MessageType::heartbeat, {});
      if (!connection.silent && now - connection.last_heard > options_.suspect_after) {
        connection.silent = true;
        push(Event{
            Event::Kind::silent, connection.peer, connection.theirs.incarnation, {}, false, {}, {}, false});
        // The way may be half open, or a newer incarnation may be there: a connection that works takes over.
        dialer_.lost(connection.peer, now);
      }
      if (closing_ && connection.link->drained()) connection.link->shut_down_sending();
    }
  }
  for (const std::uint64_t id : ended) remove(id, now);
  const std::lock_guard lock(mutex_);
  closed_ = closing_ && connections_.empty();
  if (closed_) all_closed_.notify_all();
}

}  // namespace mlk::rt
