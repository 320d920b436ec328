// Decides when to dial a peer, and what the results of the attempts prove. Has no sockets and no clock.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "runtime/base/address.h"
#include "runtime/transport/event.h"

namespace mlk::rt {

// A round is one look-up of a peer's name and one attempt at each of its addresses, all at the same time. The
// delay between rounds doubles, up to retry_max.
class Dialer {
 public:
  Dialer(Milliseconds retry_min, Milliseconds retry_max) : retry_min_(retry_min), retry_max_(retry_max) {}

  void add(PeerId peer, const HostPort& where, SteadyTime now);
  const HostPort* find(PeerId peer) const;

  // The peers whose round starts now. A returned peer is busy until its round is over.
  std::vector<PeerId> due(SteadyTime now);
  std::optional<SteadyTime> next_round() const;

  // The look-up of the round gave `count` addresses to try. With 0 (the name is unknown) the round is over.
  // Returns false if the round is already over, because the peer is connected.
  bool attempts(PeerId peer, std::size_t count, SteadyTime now);

  enum class Outcome { refused, failed };
  // Returns true if the round is over and every address has refused, so that no process listens at the peer's
  // addresses.
  bool attempt_over(PeerId peer, Outcome outcome, SteadyTime now);

  void connected(PeerId peer);  // no rounds until lost()
  void lost(PeerId peer, SteadyTime now);

 private:
  struct Target {
    HostPort where;
    SteadyTime next;
    Milliseconds delay{0};
    enum class State { waiting, in_round, connected } state = State::waiting;
    std::size_t open = 0;
    bool all_refused = true;
  };
  void back_off(Target& target, SteadyTime now) const;

  Milliseconds retry_min_, retry_max_;
  std::map<PeerId, Target> targets_;
};

}  // namespace mlk::rt
