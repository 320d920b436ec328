// What peers say to each other before any other message, and which connection belongs to which peer.
#include "runtime/transport/transport_impl.h"

namespace mlk::rt {
namespace {

constexpr std::uint8_t flag_replaced = 1;  // of goodbye: the sender knows a newer incarnation of the receiver

}  // namespace

void Transport::Impl::tell(Connection& connection, MessageType type, std::span<const std::byte> payload,
                           std::uint64_t clock, std::uint8_t flags) {
  Header header;
  header.type = type;
  header.sender = self_.id;
  header.incarnation = self_.incarnation;
  header.clock = clock;
  header.flags = flags;
  // Small and rare: sent whatever is queued.
  connection.link->send(header, payload, ~std::size_t{0});
  connection.last_sent = std::chrono::steady_clock::now();
}

bool Transport::Impl::on_frame(Connection& connection, Frame&& frame) {
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
  if (header.type == MessageType::lane) {
    refuse(connection, "shared memory without its descriptor");
    return false;
  }
  if (header.type == MessageType::goodbye) {
    const auto kind = header.flags & flag_replaced ? Event::Kind::replaced : Event::Kind::goodbye;
    push(Event{kind, connection.peer, header.incarnation, {}, true, header, {}, false});
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
  item.event = Event{Event::Kind::message, connection.peer,          frame.header.incarnation, {}, false,
                     frame.header,         std::move(frame.payload), frame.in_posted_buffer};
  item.event.checksum = frame.posted_crc;
  const std::size_t waiting = account.bytes.fetch_add(item.size) + item.size;
  push(std::move(item));
  if (waiting > options_.credit) {
    connection.link->pause();
    account.paused = true;
    // The consumer may have emptied the queue in between, and then nothing else would resume reading.
    if (account.bytes < options_.credit / 2 && account.paused.exchange(false)) connection.link->resume();
  }
  return true;
}

bool Transport::Impl::on_handshake(Connection& connection, const Frame& frame) {
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
  dead_unless_back_.erase(peer);
  given_up_.erase(peer);
  last_incarnation_[peer] = incarnation;
  connection.stage = Stage::established;
  connection.link->suit_send_buffer();
  dialer_.connected(peer);
  for (auto& [id, other] : connections_) {  // attempts at the peer's other addresses
    if (other.stage != Stage::established && other.dialled && other.peer == peer) other.doomed = true;
  }
  {
    const std::lock_guard lock(mutex_);
    active_[peer] = connection.link;
    auto& account = accounts_[peer];
    if (!account) account = std::make_shared<Account>();
    connection.account = account;
  }
  if (connection.account->paused)
    connection.link->pause();  // what came by its last connection still waits to be received
  push(Event{Event::Kind::up, peer, incarnation, connection.theirs.address, false, {}, {}, false});
  return true;
}

void Transport::Impl::retire(Connection& older, bool other_incarnation) {
  if (other_incarnation) tell(older, MessageType::goodbye, {}, 0, flag_replaced);
  older.stage = Stage::await_hello;  // no longer the peer's connection: its end is not reported
  older.doomed = true;
  push(Event{Event::Kind::down, older.peer, older.theirs.incarnation, {}, other_incarnation, {}, {}, false});
}

Transport::Impl::Connection* Transport::Impl::established(PeerId peer) {
  for (auto& [id, connection] : connections_) {
    if (connection.stage == Stage::established && connection.peer == peer) return &connection;
  }
  return nullptr;
}

}  // namespace mlk::rt
