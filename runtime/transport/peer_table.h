// The known incarnations of each peer, over all of its connections. Has no sockets and no clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/transport/event.h"

namespace mlk::rt {

// Of two incarnations of a peer, the one that connected later wins. The other incarnation is fenced: it is
// not accepted again. The table keeps at most 256 fenced incarnations of a peer.
class PeerTable {
 public:
  struct Incarnation {
    PeerId peer;
    std::uint64_t number = 0;
  };

  bool is_fenced(PeerId peer, std::uint64_t incarnation) const;

  // This incarnation is connected now. Returns the previous incarnation if it was lost without proof of its
  // death, because the new incarnation is the proof.
  std::optional<Incarnation> connected(PeerId peer, std::uint64_t incarnation);

  // The connection has ended, but the peer may be alive. If `until` is set, the peer counts as dead if it is
  // not connected again by that time.
  void lost_without_proof(PeerId peer, std::optional<SteadyTime> until);

  // No process listens at the peer's addresses. If an incarnation was lost without proof, returns it, because
  // its death is proven now.
  std::optional<Incarnation> nobody_listens(PeerId peer);

  // Removes and returns the incarnations whose time is over: they count as dead.
  std::vector<Incarnation> overdue(SteadyTime now);

 private:
  static constexpr std::size_t most_fenced = 256;

  struct Entry {
    std::optional<std::uint64_t> last;  // incarnation
    bool unproven = false;              // lost, but perhaps alive
    std::optional<SteadyTime> dead_at;  // the peer counts as dead at this time, if it has not connected again
    std::set<std::uint64_t> fenced;
  };
  std::map<PeerId, Entry> entries_;
};

}  // namespace mlk::rt
