// Handles the frames of a connection: those of the handshake, those for the transport, and those for the
// consumer. Decides which connection belongs to which peer.
#include "runtime/transport/transport_impl.h"

namespace mlk::rt {
namespace {

constexpr std::uint8_t flag_replaced = 1;  // of a goodbye: a newer incarnation of the receiver has connected

}  // namespace

void Transport::Impl::send_control(Connection& connection, MessageType type,
                                   std::span<const std::byte> payload, std::uint64_t clock,
                                   std::uint8_t flags) {
  const Header header{
      .type = type, .flags = flags, .sender = self_.id, .incarnation = self_.incarnation, .clock = clock};
  // These messages are small and rare, so no limit of the queue applies to them.
  connection.link->send(header, payload, ~std::size_t{0});
  connection.last_sent = std::chrono::steady_clock::now();
}

bool Transport::Impl::on_frame(Connection& connection, Frame&& frame) {
  connection.last_heard = std::chrono::steady_clock::now();
  if (connection.stage != Stage::established) return on_handshake(connection, frame);
  const Header& header = frame.header;
  if (header.sender != connection.peer || header.incarnation != connection.incarnation) {
    refuse(connection, "a message in the name of somebody else");
    return false;
  }
  if (connection.silent) {
    connection.silent = false;
    end_attempts(connection.peer);
    push(Event{.kind = Event::Kind::audible, .peer = connection.peer, .incarnation = header.incarnation});
  }
  if (header.type == MessageType::heartbeat) return true;
  if (header.type == MessageType::lane) {
    refuse(connection, "shared memory without its descriptor");
    return false;
  }
  if (header.type == MessageType::goodbye) {
    const auto kind = header.flags & flag_replaced ? Event::Kind::replaced : Event::Kind::goodbye;
    push(Event{.kind = kind,
               .peer = connection.peer,
               .incarnation = header.incarnation,
               .proven = true,
               .header = header});
    connection.doomed = true;
    return false;
  }
  return deliver(connection, std::move(frame));
}

bool Transport::Impl::deliver(Connection& connection, Frame&& frame) {
  Account& account = *connection.account;
  Item item;
  item.size = header_size + frame.payload.size();
  item.account = connection.account;
  item.posted_epoch = frame.posted_epoch;
  item.event = Event{.kind = Event::Kind::message,
                     .peer = connection.peer,
                     .incarnation = frame.header.incarnation,
                     .header = frame.header,
                     .payload = std::move(frame.payload),
                     .in_posted_buffer = frame.in_posted_buffer,
                     .checksum = frame.posted_crc};
  const std::size_t waiting = account.bytes.fetch_add(item.size) + item.size;
  push(std::move(item));
  if (waiting > options_.credit) {
    connection.link->pause();
    account.paused = true;
    // The consumer may have emptied the queue meanwhile. In that case only this code resumes reading.
    if (account.bytes < options_.credit / 2 && account.paused.exchange(false)) connection.link->resume();
  }
  return true;
}

bool Transport::Impl::on_handshake(Connection& connection, const Frame& frame) {
  if (!connection.handshake) return false;
  const Handshake::Turn turn = connection.handshake->on_frame(frame.header, frame.payload);
  if (turn.send) send_control(connection, turn.send->type, turn.send->payload);
  if (!turn.fault.empty()) {
    refuse(connection, turn.fault);
    return false;
  }
  return !turn.done || promote(connection, connection.handshake->theirs());
}

// The peer has proved itself: from now on, this is the connection for its messages.
bool Transport::Impl::promote(Connection& connection, const Introduction& theirs) {
  const PeerId peer = connection.peer = theirs.id;
  connection.incarnation = theirs.incarnation;
  if (peers_.is_fenced(peer, theirs.incarnation)) {
    send_control(connection, MessageType::goodbye, {}, 0, flag_replaced);
    refuse(connection, "an older incarnation of " + to_string(peer));
    return false;
  }
  if (Connection* older = established(peer)) retire(*older, older->incarnation != theirs.incarnation);
  if (const auto dead = peers_.connected(peer, theirs.incarnation)) push_down(peer, dead->number, true);
  given_up_.erase(peer);
  connection.stage = Stage::established;
  connection.link->suit_send_buffer();
  end_attempts(peer);
  {
    const std::lock_guard lock(mutex_);
    active_[peer] = connection.link;
    auto& account = accounts_[peer];
    if (!account) account = std::make_shared<Account>();
    connection.account = account;
  }
  if (connection.account->paused)
    connection.link->pause();  // the messages of the peer's last connection still wait for receive()
  push(Event{
      .kind = Event::Kind::up, .peer = peer, .incarnation = theirs.incarnation, .address = theirs.address});
  return true;
}

void Transport::Impl::retire(Connection& older, bool other_incarnation) {
  if (other_incarnation) send_control(older, MessageType::goodbye, {}, 0, flag_replaced);
  older.stage = Stage::handshake;  // so the end of the older connection is not reported again
  older.doomed = true;
  push_down(older.peer, older.incarnation, other_incarnation);
}

Transport::Impl::Connection* Transport::Impl::established(PeerId peer) {
  for (auto& [id, connection] : connections_) {
    if (connection.stage == Stage::established && connection.peer == peer) return &connection;
  }
  return nullptr;
}

}  // namespace mlk::rt
