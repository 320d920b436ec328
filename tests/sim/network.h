// Simulates the transports of all processes without sockets: connections between hosts, cuts of the network
// in each direction, and processes that freeze and die.
//
// Like the real transport (runtime/transport) it has one connection for each pair, which one side dials with
// the real Dialer. Messages arrive in order; messages in transit are lost with the connection. A cut only
// delays messages, since TCP sends again. A peer that is not heard is reported as silent, and after 15 s as
// lost, which does not prove its end. An end of stream or a refused attempt proves the end of a process. If a
// process has two incarnations, the newer one stays connected, and the older one hears of the newer one.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/membership/effects.h"
#include "runtime/transport/dialer.h"
#include "tests/sim/clock.h"

namespace mlk::sim {

// A fault that can be planted in the simulated transport, to check that the rules detect it.
struct Plants {
  bool given_up_ends = false;  // a peer sees an abandoned connection as a death
};

struct NetworkSettings {
  Duration shortest{50us}, longest{5ms};                                         // the delay of a message
  rt::Milliseconds retry_max{1000}, suspect_after{5000}, suspected_after{5000};  // as TransportOptions
  bool frozen_are_lost = false;  // messages are so large that a process that does not read is given up
  Plants plants;
};

class Network {
 public:
  using Place = std::uint32_t;  // numbers all processes, of every role
  using Deliver = std::function<void(Place, rt::Event&&)>;
  using Trace = std::function<void(Place, const std::string&)>;

  // ids: the ids of the processes, by their numbers. Several processes may have the same id: an old process
  // and its successor. A dialled id leads to the process that was started last.
  Network(Clock& clock, Random& random, NetworkSettings settings, std::vector<rt::PeerId> ids,
          Deliver deliver, Trace trace);

  // ---- faults of processes and of the network
  void start(Place rank, std::uint64_t incarnation);
  // The process ends with this code, and sends goodbyes.
  void end(Place rank, int exit_code);
  void kill(Place rank);       // its host closes its connections
  void lose_host(Place rank);  // its connections stay open
  void freeze(Place rank);
  void thaw(Place rank);
  bool is_frozen(Place rank) const { return hosts_[rank].frozen; }
  void cut(Place from, Place to);
  void heal(Place from, Place to);

  bool is_cut(Place from, Place to) const { return cut_[from * hosts_.size() + to]; }

  // ---- actions of a process
  Place number(rt::PeerId id) const;  // the first process with that id
  void dial(Place rank, Place peer);
  // The incarnation of the connected peer; 0: not connected.
  std::uint64_t connected(Place rank, Place peer) const;
  void send(Place from, Place to, const rt::Header& header, rt::Bytes payload, Duration extra = 0ns);

 private:
  struct Packet {
    enum class Kind { message, proof, goodbye, replaced, end_of_stream } kind = Kind::message;
    rt::Header header;
    rt::Bytes payload;
  };
  // One connection; [0] is the side that dialled, and direction [0] leads away from it.
  struct Connection {
    Place rank[2];
    std::uint64_t incarnation[2];
    bool open[2] = {true, true};
    bool vanished[2] = {false, false};  // without an end of stream
    bool given_up[2] = {false, false};  // the other side must not see the end yet
    SteadyTime opened, arrives[2];
    std::deque<Packet> held[2];  // held back by a cut, or by a frozen receiver
  };
  using ConnectionPtr = std::shared_ptr<Connection>;
  // The state of a peer in the transport of a process.
  struct Side {
    ConnectionPtr connection;
    bool silent = false, unproven = false;
    std::uint64_t quiet = 0;  // odd while the peer is silent; grows with the begin and the end of a silence
    std::uint64_t last_incarnation = 0;
    std::set<std::uint64_t> fenced;
  };
  struct Host {
    bool there = true, running = false, frozen = false;
    std::uint64_t incarnation = 0;
    SteadyTime frozen_at, peers_return_until;
    std::optional<rt::Dialer> dialer;
    std::optional<SteadyTime> round_planned;
    std::vector<Side> sides;  // by the first number of the peer's id
  };

  Side& side(Place rank, Place peer) { return hosts_[rank].sides[first_[peer]]; }
  const Side& side(Place rank, Place peer) const { return hosts_[rank].sides[first_[peer]]; }
  bool answers(Place from, Place to) const;
  bool alive(Place rank, std::uint64_t incarnation) const {
    return hosts_[rank].running && hosts_[rank].incarnation == incarnation;
  }
  Duration way() { return random_.between(settings_.shortest, settings_.longest); }
  void put(const ConnectionPtr& connection, int from, Packet&& packet, Duration extra = 0ns);
  void arrive(const ConnectionPtr& connection, int to, Packet&& packet);
  void take_in(const ConnectionPtr& connection, int to, Packet&& packet);
  void release(const ConnectionPtr& connection, int to);
  void release_all(Place rank);
  void plan_round(Place rank);
  void start_rounds(Place rank);
  void attempt(Place rank, Place peer);
  void attempt_over(Place rank, std::uint64_t incarnation, Place peer, rt::Dialer::Outcome outcome);
  void connect(Place rank, Place peer);
  void promote(Place rank, Place peer, const ConnectionPtr& connection, int own);
  void close(const ConnectionPtr& connection, int own);
  void lose(Place rank, Place peer, bool proven, bool given_up = false);
  void end_given_up(Place rank, Place peer);
  bool hears(Place rank, Place peer) const;
  void listen(Place rank, Place peer);
  void listen_around(Place rank);
  void note_silence(Place rank, Place peer, std::uint64_t incarnation, std::uint64_t quiet);
  void note_loss(Place rank, Place peer, std::uint64_t incarnation, std::uint64_t quiet);
  void note_heard(Place rank, Place peer);
  void tell(Place rank, Place peer, rt::Event::Kind kind, std::uint64_t incarnation, bool proven = false);

  Clock& clock_;
  Random& random_;
  const NetworkSettings settings_;
  const Deliver deliver_;
  const Trace trace_;
  const std::vector<rt::PeerId> ids_;
  std::vector<Place> first_, newest_;  // by id: its first number; the number of its newest process
  std::vector<Host> hosts_;
  std::vector<bool> cut_;
  std::vector<std::weak_ptr<Connection>> connections_;
};

}  // namespace mlk::sim
