// The rounds of the loop: they read from peers, watch for silent peers and end connections.
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "runtime/transport/transport_impl.h"

namespace mlk::rt {
namespace {

constexpr Milliseconds tick_interval = Loop::longest_round;

// Whether sent bytes wait for an acknowledgement, and none has come for this time: the other host has lost
// power, or the network is cut. TCP_USER_TIMEOUT would also end a connection to a live peer that is busy and
// reads nothing.
bool unanswered(int fd, Milliseconds time) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;  // not TCP
  return info.tcpi_unacked > 0 && Milliseconds(info.tcpi_last_ack_recv) > time;
}

// A connection has ended, and the last failed send had this error (0: none failed). Whether this shows that
// the process is gone, and not only that the network is cut.
bool proves_death(int send_error) {
  return send_error == 0 || send_error == ECONNRESET || send_error == EPIPE || send_error == ECONNREFUSED;
}

}  // namespace

SteadyTime Transport::Impl::next_round() const {
  const auto next = closing_ ? std::nullopt : dialer_.next_round();
  return next.value_or(SteadyTime::max());
}

void Transport::Impl::serve_round(std::span<const epoll_event> events) {
  const auto now = std::chrono::steady_clock::now();
  notice_pause(now);
  for (const epoll_event& event : events) handle(event.data.u64, event.events, now);
  run_commands();
  if (!closing_) start_rounds(now);
  if (now - last_tick_ >= tick_interval) tick(now);
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
  if (id == Acceptor::tcp_id || id == Acceptor::local_id) return accept(id, now);
  if (id == id_of_resolver) {
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
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP)) serve(connection);
    notice_room(connection);
  }
  if (connection.doomed) remove(id, now);
}

// The time since the last tick. It includes the time in which this host was suspended, because the clocks of
// other hosts went on.
std::chrono::nanoseconds Transport::Impl::since_tick(SteadyTime now) const {
  return now - last_tick_ + options_.suspended() - suspended_at_tick_;
}

// Detects a pause of this process itself: the loop has not run for so long that peers may have closed their
// connections with this process.
void Transport::Impl::notice_pause(SteadyTime now) {
  if (since_tick(now) > options_.suspected_after)
    peers_return_until_ = now + options_.handshake_timeout + 2 * options_.retry_max;
}

// Receives what the peer has sent.
void Transport::Impl::serve(Connection& connection) {
  FrameReader::Receiver receiver;
  const auto trust = [&] {
    receiver.trusted = connection.stage == Stage::established;
    receiver.length_limit = receiver.trusted ? options_.max_payload : handshake_payload_limit;
  };
  trust();
  receiver.place = [&](const Header& header) -> std::optional<PostedReceives::Ticket> {
    if (connection.stage != Stage::established) return {};
    return posted_receives_.claim({connection.peer, header.type, header.generation, header.clock, header.key},
                                  header.length);
  };
  receiver.deliver = [&](Frame&& frame) {
    const bool go_on = on_frame(connection, std::move(frame));
    trust();
    return go_on;
  };
  receiver.announce_room = [&] { send_control(connection, MessageType::heartbeat, {}); };
  const bool was_stranger = connection.stage != Stage::established;
  switch (connection.link->read(receiver, posted_receives_)) {
    case FrameReader::End::more_later:
      break;
    case FrameReader::End::fault:
      if (!connection.doomed) refuse(connection, describe(connection.link->fault()));
      break;
    case FrameReader::End::reset:
      if (was_stranger && connection.dialled) connection.refused = true;
      [[fallthrough]];
    case FrameReader::End::end_of_stream:
      connection.doomed = true;
      // After a silence, the end of the connection proves nothing: perhaps the other host has only given up
      // the connection.
      connection.proven = !connection.silent && proves_death(connection.link->send_error());
      notice_pause(std::chrono::steady_clock::now());  // the pause may have come during the read
      if (connection.proven && !was_stranger && std::chrono::steady_clock::now() < peers_return_until_) {
        connection.proven = false;
        connection.dead_at = peers_return_until_;
      }
      break;
    case FrameReader::End::unproven_loss:
      connection.doomed = true;
      connection.proven = false;
      break;
  }
}

// Reads again after Link::pause(), starting with bytes that were read before the pause.
void Transport::Impl::go_on_reading(PeerId peer) {
  Connection* connection = established(peer);
  if (connection == nullptr) return;
  connection->link->resume();
  serve(*connection);
  notice_room(*connection);
  if (connection->doomed) remove(connection->link->id(), std::chrono::steady_clock::now());
}

void Transport::Impl::notice_room(Connection& connection) {
  if (connection.stage != Stage::established || !connection.link->room_again()) return;
  push(Event{.kind = Event::Kind::room, .peer = connection.peer, .incarnation = connection.incarnation});
}

void Transport::Impl::refuse(Connection& connection, std::string_view why) {
  connection.doomed = true;
  connection.proven = false;
  complain(connection.link->remote(), why);
}

void Transport::Impl::complain(const std::string& remote, std::string_view why) {
  const auto left_out = complaints_.admit(std::chrono::steady_clock::now());
  if (!left_out) return;
  std::string line = "connection with " + remote + " closed: " + std::string(why);
  if (*left_out > 0) line += " (and " + std::to_string(*left_out) + " others before it)";
  log_(line);
}

void Transport::Impl::remove(std::uint64_t id, SteadyTime now) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection connection = std::move(found->second);
  connections_.erase(found);
  const bool was_established = connection.stage == Stage::established;
  if (was_established) {
    {
      const std::lock_guard lock(mutex_);
      const auto active = active_.find(connection.peer);
      if (active != active_.end() && active->second == connection.link) active_.erase(active);
    }
    if (!connection.proven) peers_.lost_without_proof(connection.peer, connection.dead_at);
    push_down(connection.peer, connection.incarnation, connection.proven);
    dialer_.lost(connection.peer, now);
  } else if (connection.dialled) {
    if (connection.link->medium() == Medium::one_host) {
      connection.refused = false;  // the result does not apply to TCP, which the next attempt uses
      if (established(connection.peer) == nullptr) tcp_next_.insert(connection.peer);
    }
    const auto outcome = connection.refused ? Dialer::Outcome::refused : Dialer::Outcome::failed;
    if (dialer_.attempt_over(connection.peer, outcome, now)) {
      if (const auto dead = peers_.nobody_listens(connection.peer)) push_down(dead->peer, dead->number, true);
      // The peer was dialled because it is silent, and no process listens at its addresses: so the old
      // connection is half open.
      if (Connection* half = established(connection.peer)) half->doomed = true;
    }
  }
  if (!connection.given_up || closing_) return connection.link->close();
  connection.link->give_up();
  given_up_[connection.peer] = connection.link;
}

// The host of a process that is only stopped still acknowledges bytes. So a stopped peer counts as lost only
// while this process waits for it.
bool Transport::Impl::lost(const Connection& connection, SteadyTime now) const {
  const Link& link = *connection.link;
  return now - connection.last_heard > options_.lost_after &&
         (link.waited_for() || unanswered(link.fd(), options_.lost_after));
}

void Transport::Impl::tick(SteadyTime now) {
  // After a pause of this process itself (stopped, swapped out, its host suspended), the bytes from the peers
  // still wait in the sockets, so no peer counts as silent yet.
  const bool was_away = since_tick(now) > std::chrono::seconds(1);
  last_tick_ = now;
  suspended_at_tick_ = options_.suspended();
  acceptor_->listen_again();
  std::vector<std::uint64_t> ended;
  for (auto& [id, connection] : connections_) {
    if (connection.doomed) {
      ended.push_back(id);
    } else if (connection.stage != Stage::established) {
      if (now - connection.opened > options_.handshake_timeout) ended.push_back(id);
    } else {
      if (was_away || connection.link->paused()) connection.last_heard = now;
      // Queued data serves as a heartbeat.
      if (now - connection.last_sent >= options_.heartbeat && !closing_ && connection.link->drained())
        send_control(connection, MessageType::heartbeat, {});
      if (!connection.silent && now - connection.last_heard > options_.suspect_after) {
        connection.silent = true;
        push(Event{
            .kind = Event::Kind::silent, .peer = connection.peer, .incarnation = connection.incarnation});
        // The connection may be half open, or a newer incarnation may be there: a new connection that works
        // replaces this one.
        dialer_.lost(connection.peer, now);
      }
      if (lost(connection, now)) {
        connection.proven = false;
        connection.given_up = true;
        ended.push_back(id);
      }
      if (closing_ && connection.link->drained()) connection.link->shut_down_sending();
    }
  }
  for (const std::uint64_t id : ended) remove(id, now);
  for (const auto& dead : peers_.overdue(now)) push_down(dead.peer, dead.number, true);
  closed_ = closing_ && connections_.empty();
}

}  // namespace mlk::rt
