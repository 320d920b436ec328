// The incarnations of peers: the current one, the fenced ones and the dead ones.
#include "runtime/transport/peer_table.h"

#include <utility>

namespace mlk::rt {

bool PeerTable::is_fenced(PeerId peer, std::uint64_t incarnation) const {
  const auto found = entries_.find(peer);
  return found != entries_.end() && found->second.fenced.contains(incarnation);
}

std::optional<PeerTable::Incarnation> PeerTable::connected(PeerId peer, std::uint64_t incarnation) {
  Entry& entry = entries_[peer];
  const bool was_unproven = std::exchange(entry.unproven, false);
  entry.dead_at.reset();
  const auto before = std::exchange(entry.last, incarnation);
  if (!before || *before == incarnation) return {};
  if (entry.fenced.size() >= most_fenced) entry.fenced.erase(entry.fenced.begin());
  entry.fenced.insert(*before);
  if (!was_unproven) return {};
  return Incarnation{peer, *before};
}

void PeerTable::lost_without_proof(PeerId peer, std::optional<SteadyTime> until) {
  Entry& entry = entries_[peer];
  entry.unproven = true;
  entry.dead_at = until;
}

std::optional<PeerTable::Incarnation> PeerTable::nobody_listens(PeerId peer) {
  const auto found = entries_.find(peer);
  if (found == entries_.end() || !std::exchange(found->second.unproven, false)) return {};
  return Incarnation{peer, found->second.last.value_or(0)};
}

std::vector<PeerTable::Incarnation> PeerTable::overdue(SteadyTime now) {
  std::vector<Incarnation> dead;
  for (auto& [peer, entry] : entries_) {
    if (!entry.dead_at || now < *entry.dead_at) continue;
    entry.dead_at.reset();
    if (std::exchange(entry.unproven, false)) dead.push_back({peer, entry.last.value_or(0)});
  }
  return dead;
}

}  // namespace mlk::rt
