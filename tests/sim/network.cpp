#include "tests/sim/network.h"

#include <algorithm>
#include <utility>

namespace mlk::sim {
namespace {

using rt::Event;

constexpr Duration heartbeat = 500ms, lost_after = 15s, handshake_timeout = 5s;
constexpr rt::Milliseconds retry_min{50};
constexpr Duration retransmitted = 300ms;  // the time until TCP sends again over a healed network

}  // namespace

Network::Network(Clock& clock, Random& random, NetworkSettings settings, std::vector<rt::PeerId> ids,
                 Deliver deliver, Trace trace)
    : clock_(clock),
      random_(random),
      settings_(settings),
      deliver_(std::move(deliver)),
      trace_(std::move(trace)),
      ids_(std::move(ids)),
      hosts_(ids_.size()),
      cut_(ids_.size() * ids_.size()) {
  for (Host& host : hosts_) host.sides.resize(ids_.size());
  for (const rt::PeerId id : ids_) newest_.push_back(first_.emplace_back(number(id)));
}

Network::Place Network::number(rt::PeerId id) const {
  return static_cast<Place>(std::ranges::find(ids_, id) - ids_.begin());
}

void Network::start(Place rank, std::uint64_t incarnation) {
  Host& host = hosts_[rank];
  const std::size_t ranks = host.sides.size();
  host = Host();
  host.running = true;
  host.incarnation = incarnation;
  host.dialer.emplace(retry_min, settings_.retry_max);
  host.sides.resize(ranks);
  newest_[first_[rank]] = rank;
}

void Network::end(Place rank, int exit_code) {
  for (Side& side : hosts_[rank].sides) {
    if (!side.connection) continue;
    const int own = side.connection->rank[0] == rank ? 0 : 1;
    Packet goodbye{Packet::Kind::goodbye, {}, {}};
    goodbye.header.type = rt::MessageType::goodbye;
    goodbye.header.clock = static_cast<std::uint64_t>(exit_code);
    put(side.connection, own, std::move(goodbye));
  }
  kill(rank);
}

void Network::kill(Place rank) {
  Host& host = hosts_[rank];
  host.running = host.frozen = false;
  for (Side& side : host.sides) side.connection.reset();
  // Also closes connections that only the other side still has.
  for (const auto& weak : connections_) {
    const auto connection = weak.lock();
    if (!connection) continue;
    for (const int own : {0, 1}) {
      if (connection->rank[own] == rank) close(connection, own);
    }
  }
  for (Place peer = 0; peer < hosts_.size(); ++peer) listen(peer, rank);
}

void Network::lose_host(Place rank) {
  Host& host = hosts_[rank];
  host.running = host.frozen = false;
  host.there = false;
  for (Side& side : host.sides) side.connection.reset();
  for (const auto& weak : connections_) {
    const auto connection = weak.lock();
    if (!connection) continue;
    for (const int own : {0, 1}) {
      if (connection->rank[own] == rank) connection->vanished[own] = true, connection->open[own] = false;
    }
  }
  for (Place peer = 0; peer < hosts_.size(); ++peer) listen(peer, rank);
}

void Network::freeze(Place rank) {
  Host& host = hosts_[rank];
  if (!host.running || host.frozen) return;
  host.frozen = true;
  host.frozen_at = clock_.now();
  for (Place peer = 0; peer < hosts_.size(); ++peer) {
    listen(peer, rank);
    // The timers by which the frozen process notices silent peers stop, too.
    host.sides[peer].quiet += host.sides[peer].quiet & 1;
  }
}

void Network::thaw(Place rank) {
  Host& host = hosts_[rank];
  if (!host.running || !host.frozen) return;
  host.frozen = false;
  if (clock_.now() - host.frozen_at > settings_.suspected_after)
    host.peers_return_until = clock_.now() + handshake_timeout + 2 * settings_.retry_max;
  release_all(rank);
  plan_round(rank);
  listen_around(rank);
}

void Network::cut(Place from, Place to) {
  cut_[from * hosts_.size() + to] = true;
  listen(to, from);
}

void Network::heal(Place from, Place to) {
  cut_[from * hosts_.size() + to] = false;
  clock_.after(way() + random_.between(Duration(0), retransmitted), [this, to] { release_all(to); });
  listen(to, from);
}

// ---- packets

void Network::put(const ConnectionPtr& connection, int from, Packet&& packet, Duration extra) {
  SteadyTime& arrives = connection->arrives[from];
  arrives = std::max(arrives, clock_.now() + way() + extra);
  clock_.at(arrives, [this, connection, to = 1 - from, packet = std::move(packet)]() mutable {
    arrive(connection, to, std::move(packet));
  });
}

void Network::arrive(const ConnectionPtr& connection, int to, Packet&& packet) {
  connection->held[to].push_back(std::move(packet));
  release(connection, to);
}

void Network::release(const ConnectionPtr& connection, int to) {
  auto& held = connection->held[to];
  const Place rank = connection->rank[to], peer = connection->rank[1 - to];
  while (!held.empty()) {
    if (!alive(rank, connection->incarnation[to]) || !connection->open[to]) return held.clear();
    if (is_cut(peer, rank) || hosts_[rank].frozen) return;
    Packet packet = std::move(held.front());
    held.pop_front();
    take_in(connection, to, std::move(packet));
  }
}

void Network::release_all(Place rank) {
  std::erase_if(connections_, [](const auto& weak) { return weak.expired(); });
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    const auto connection = connections_[i].lock();
    if (!connection) continue;
    for (const int own : {0, 1}) {
      if (connection->rank[own] == rank) release(connection, own);
    }
  }
}

void Network::take_in(const ConnectionPtr& connection, int to, Packet&& packet) {
  const Place rank = connection->rank[to], peer = connection->rank[1 - to];
  Host& host = hosts_[rank];
  if (packet.kind == Packet::Kind::proof) {
    if (clock_.now() - connection->opened > handshake_timeout) return close(connection, to);
    return promote(rank, peer, connection, to);
  }
  if (side(rank, peer).connection != connection) return;  // the connection was retired
  switch (packet.kind) {
    case Packet::Kind::end_of_stream: {
      bool proven = !side(rank, peer).silent;
      if (proven && clock_.now() < host.peers_return_until) {
        proven = false;
        clock_.at(host.peers_return_until, [this, rank, peer, own = host.incarnation] {
          if (!alive(rank, own) || hosts_[rank].frozen) return;
          Side& its = side(rank, peer);
          if (std::exchange(its.unproven, false))
            tell(rank, peer, Event::Kind::down, its.last_incarnation, true);
        });
      }
      return lose(rank, peer, proven);
    }
    case Packet::Kind::goodbye:
    case Packet::Kind::replaced: {
      const bool goodbye = packet.kind == Packet::Kind::goodbye;
      Event event;
      event.kind = goodbye ? Event::Kind::goodbye : Event::Kind::replaced;
      event.peer = ids_[peer];
      event.incarnation = connection->incarnation[1 - to];
      event.header = packet.header;
      deliver_(rank, std::move(event));
      if (alive(rank, connection->incarnation[to]) && side(rank, peer).connection == connection)
        lose(rank, peer, true);
      return;
    }
    default: {
      note_heard(rank, peer);
      Event event;
      event.peer = ids_[peer];
      event.incarnation = connection->incarnation[1 - to];
      event.header = packet.header;
      event.payload = std::move(packet.payload);
      deliver_(rank, std::move(event));
    }
  }
}

void Network::send(Place from, Place to, const rt::Header& header, rt::Bytes payload, Duration extra) {
  const auto& connection = side(from, to).connection;
  if (!connection) return;
  put(connection, connection->rank[0] == from ? 0 : 1, {Packet::Kind::message, header, std::move(payload)},
      extra);
}

std::uint64_t Network::connected(Place rank, Place peer) const {
  const auto& connection = side(rank, peer).connection;
  return connection ? connection->incarnation[connection->rank[0] == rank ? 1 : 0] : 0;
}

void Network::tell(Place rank, Place peer, Event::Kind kind, std::uint64_t incarnation, bool proven) {
  Event event;
  event.kind = kind;
  event.peer = ids_[peer];
  event.incarnation = incarnation;
  event.address = "rank-" + std::to_string(peer) + ":1";
  event.proven = proven;
  if (trace_) {
    static constexpr const char* names[] = {"up", "down", "silent", "audible"};
    trace_(rank, std::string(names[static_cast<int>(kind)]) + " " + to_string(ids_[peer]) +
                     (proven ? ", proven" : ""));
  }
  deliver_(rank, std::move(event));
}

// ---- dialling

void Network::dial(Place rank, Place peer) {
  hosts_[rank].dialer->add(ids_[peer], {"rank-" + std::to_string(peer), 1}, clock_.now());
  plan_round(rank);
}

void Network::plan_round(Place rank) {
  Host& host = hosts_[rank];
  const auto next = host.dialer->next_round();
  if (!next || (host.round_planned && *host.round_planned <= *next)) return;
  host.round_planned = *next;
  clock_.at(*next, [this, rank, own = host.incarnation, at = *next] {
    if (!alive(rank, own) || hosts_[rank].round_planned != at) return;
    hosts_[rank].round_planned.reset();
    if (!hosts_[rank].frozen) start_rounds(rank);
  });
}

void Network::start_rounds(Place rank) {
  for (const rt::PeerId peer : hosts_[rank].dialer->due(clock_.now())) {
    hosts_[rank].dialer->attempts(peer, 1, clock_.now());
    attempt(rank, number(peer));
  }
  plan_round(rank);
}

bool Network::answers(Place from, Place to) const {
  return hosts_[to].there && !is_cut(from, to) && !is_cut(to, from);
}

void Network::attempt(Place rank, Place peer) {
  const auto later = [&](Duration time, rt::Dialer::Outcome outcome) {
    clock_.after(time, [this, rank, own = hosts_[rank].incarnation, peer, outcome] {
      attempt_over(rank, own, peer, outcome);
    });
  };
  const Place found = newest_[peer];
  if (!answers(rank, found) || hosts_[found].frozen)
    return later(handshake_timeout, rt::Dialer::Outcome::failed);
  if (!hosts_[found].running) return later(way() + way(), rt::Dialer::Outcome::refused);
  clock_.after(4 * way(), [this, rank, own = hosts_[rank].incarnation, peer, found] {
    if (!alive(rank, own)) return;
    const bool there =
        answers(rank, found) && hosts_[found].running && !hosts_[found].frozen && !hosts_[rank].frozen;
    if (there) return connect(rank, found);
    attempt_over(rank, own, peer, rt::Dialer::Outcome::failed);
  });
}

void Network::attempt_over(Place rank, std::uint64_t incarnation, Place peer, rt::Dialer::Outcome outcome) {
  if (!alive(rank, incarnation)) return;
  Host& host = hosts_[rank];
  if (host.frozen) outcome = rt::Dialer::Outcome::failed;
  const bool nobody = host.dialer->attempt_over(ids_[peer], outcome, clock_.now());
  plan_round(rank);
  if (!nobody) return;
  Side& its = side(rank, peer);
  if (std::exchange(its.unproven, false)) tell(rank, peer, Event::Kind::down, its.last_incarnation, true);
  if (alive(rank, incarnation) && side(rank, peer).connection) lose(rank, peer, true);
}

// The dialling side has received the answer.
void Network::connect(Place rank, Place peer) {
  auto connection = std::make_shared<Connection>();
  connection->rank[0] = rank;
  connection->rank[1] = peer;
  connection->incarnation[0] = hosts_[rank].incarnation;
  connection->incarnation[1] = hosts_[peer].incarnation;
  connection->opened = clock_.now();
  connections_.push_back(connection);
  put(connection, 0, {Packet::Kind::proof, {}, {}});
  promote(rank, peer, connection, 0);
}

void Network::promote(Place rank, Place peer, const ConnectionPtr& connection, int own) {
  Host& host = hosts_[rank];
  Side& its = side(rank, peer);
  const std::uint64_t incarnation = connection->incarnation[1 - own];
  if (its.fenced.contains(incarnation)) {
    put(connection, own, {Packet::Kind::replaced, {}, {}});
    close(connection, own);
    if (own == 0) attempt_over(rank, host.incarnation, peer, rt::Dialer::Outcome::failed);
    return;
  }
  const std::uint64_t self = host.incarnation;
  if (const auto older = std::exchange(its.connection, nullptr)) {
    const int mine = older->rank[0] == rank ? 0 : 1;
    const std::uint64_t before = older->incarnation[1 - mine];
    if (before != incarnation) put(older, mine, {Packet::Kind::replaced, {}, {}});
    close(older, mine);
    tell(rank, peer, Event::Kind::down, before, before != incarnation);
  }
  if (its.last_incarnation != 0 && its.last_incarnation != incarnation) {
    its.fenced.insert(its.last_incarnation);
    if (its.unproven) tell(rank, peer, Event::Kind::down, its.last_incarnation, true);
  }
  if (!alive(rank, self)) return;
  its.unproven = false;
  its.last_incarnation = incarnation;
  its.connection = connection;
  its.silent = false;
  its.quiet += its.quiet & 1;
  host.dialer->connected(ids_[peer]);
  end_given_up(rank, peer);
  tell(rank, peer, Event::Kind::up, incarnation);
  if (alive(rank, self)) listen(rank, peer);
}

// Closes this side's end; messages that were sent before still arrive.
void Network::close(const ConnectionPtr& connection, int own) {
  if (!connection->open[own] && !connection->given_up[own]) return;
  connection->open[own] = connection->given_up[own] = false;
  connection->held[own].clear();
  put(connection, own, {Packet::Kind::end_of_stream, {}, {}});
}

// Called when the peer is back: closes the connections with it that were given up.
void Network::end_given_up(Place rank, Place peer) {
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    const auto connection = connections_[i].lock();
    if (!connection) continue;
    for (const int own : {0, 1}) {
      if (connection->rank[own] == rank && first_[connection->rank[1 - own]] == first_[peer] &&
          connection->given_up[own])
        close(connection, own);
    }
  }
}

void Network::lose(Place rank, Place peer, bool proven, bool given_up) {
  Host& host = hosts_[rank];
  Side& its = side(rank, peer);
  const auto connection = std::exchange(its.connection, nullptr);
  if (!connection) return;
  const int own = connection->rank[0] == rank ? 0 : 1;
  if (given_up) {
    connection->open[own] = false;
    connection->given_up[own] = true;
    connection->held[own].clear();
    clock_.after(Duration(0), [this, rank, other = connection->rank[1 - own]] { listen(other, rank); });
  } else {
    close(connection, own);
  }
  its.silent = false;
  its.quiet += its.quiet & 1;
  if (!proven) its.unproven = true;
  host.dialer->lost(ids_[peer], clock_.now());
  plan_round(rank);
  tell(rank, peer, Event::Kind::down, connection->incarnation[1 - own], proven);
}

// ---- silence

bool Network::hears(Place rank, Place peer) const {
  const auto& connection = side(rank, peer).connection;
  const int its = connection->rank[0] == rank ? 1 : 0;
  const Place other = connection->rank[its];
  // An end of stream in transit counts as a sign of life, like a heartbeat.
  const bool speaks = connection->open[its]
                          ? alive(other, connection->incarnation[its]) && !hosts_[other].frozen
                          : !connection->vanished[its] && !connection->given_up[its];
  return speaks && !is_cut(other, rank);
}

void Network::listen(Place rank, Place peer) {
  Host& host = hosts_[rank];
  if (rank == peer || !host.running || host.frozen || !side(rank, peer).connection) return;
  Side& its = side(rank, peer);
  const bool quiet = its.quiet & 1;
  if (hears(rank, peer)) {
    if (quiet) ++its.quiet;
    if (!its.silent) return;
    clock_.after(random_.between(settings_.shortest, heartbeat), [this, rank, peer, own = host.incarnation] {
      if (alive(rank, own) && side(rank, peer).connection && hears(rank, peer)) note_heard(rank, peer);
    });
  } else if (!quiet) {
    ++its.quiet;
    const auto heard = random_.between(Duration(0), heartbeat);
    clock_.after(settings_.suspect_after - heard,
                 [this, rank, peer, own = host.incarnation, count = its.quiet] {
                   note_silence(rank, peer, own, count);
                 });
    clock_.after(lost_after - heard, [this, rank, peer, own = host.incarnation, count = its.quiet] {
      note_loss(rank, peer, own, count);
    });
  }
}

void Network::listen_around(Place rank) {
  for (Place peer = 0; peer < hosts_.size(); ++peer) {
    listen(peer, rank);
    listen(rank, peer);
  }
}

void Network::note_silence(Place rank, Place peer, std::uint64_t incarnation, std::uint64_t quiet) {
  Host& host = hosts_[rank];
  Side& its = side(rank, peer);
  if (!alive(rank, incarnation) || its.quiet != quiet || !its.connection || its.silent) return;
  its.silent = true;
  const int own = its.connection->rank[0] == rank ? 0 : 1;
  host.dialer->lost(ids_[peer], clock_.now());
  plan_round(rank);
  tell(rank, peer, Event::Kind::silent, its.connection->incarnation[1 - own]);
}

// A peer that is only frozen is not lost, because its host acknowledges messages.
void Network::note_loss(Place rank, Place peer, std::uint64_t incarnation, std::uint64_t quiet) {
  const Side& its = side(rank, peer);
  if (!alive(rank, incarnation) || its.quiet != quiet || !its.connection) return;
  const Place other = its.connection->rank[its.connection->rank[0] == rank ? 1 : 0];
  if (hosts_[other].frozen && !is_cut(other, rank) && !settings_.frozen_are_lost) {
    return clock_.after(settings_.suspect_after, [this, rank, peer, incarnation, quiet] {
      note_loss(rank, peer, incarnation, quiet);
    });
  }
  lose(rank, peer, false, !settings_.plants.given_up_ends);
}

void Network::note_heard(Place rank, Place peer) {
  Host& host = hosts_[rank];
  Side& its = side(rank, peer);
  if (!its.silent || host.frozen) return;
  its.silent = false;
  host.dialer->connected(ids_[peer]);
  const std::uint64_t incarnation = host.incarnation;
  const int own = its.connection->rank[0] == rank ? 0 : 1;
  tell(rank, peer, Event::Kind::audible, its.connection->incarnation[1 - own]);
  // Messages that the cut had held back have arrived, but no message follows, so the silence starts again.
  if (!alive(rank, incarnation) || !its.connection || hears(rank, peer)) return;
  its.quiet += its.quiet & 1;
  listen(rank, peer);
}

}  // namespace mlk::sim
