// The rounds of dialling.
#include "runtime/transport/dialer.h"

#include <algorithm>

namespace mlk::rt {

void Dialer::add(PeerId peer, const HostPort& where, SteadyTime now) {
  Target& target = targets_[peer];
  target.where = where;
  if (target.state == Target::State::waiting) target.next = now;
}

const HostPort* Dialer::find(PeerId peer) const {
  const auto found = targets_.find(peer);
  return found == targets_.end() ? nullptr : &found->second.where;
}

std::vector<PeerId> Dialer::due(SteadyTime now) {
  std::vector<PeerId> peers;
  for (auto& [peer, target] : targets_) {
    if (target.state != Target::State::waiting || target.next > now) continue;
    target.state = Target::State::in_round;
    target.open = 0;
    target.all_refused = true;
    peers.push_back(peer);
  }
  return peers;
}

std::optional<SteadyTime> Dialer::next_round() const {
  std::optional<SteadyTime> next;
  for (const auto& [peer, target] : targets_) {
    if (target.state == Target::State::waiting && (!next || target.next < *next)) next = target.next;
  }
  return next;
}

void Dialer::back_off(Target& target, SteadyTime now) const {
  target.state = Target::State::waiting;
  target.next = now + std::max(target.delay, retry_min_);
  target.delay = std::clamp(2 * target.delay, 2 * retry_min_, retry_max_);
}

bool Dialer::attempts(PeerId peer, std::size_t count, SteadyTime now) {
  const auto found = targets_.find(peer);
  if (found == targets_.end() || found->second.state != Target::State::in_round) return false;
  found->second.open = count;
  if (count == 0) back_off(found->second, now);
  return true;
}

bool Dialer::attempt_over(PeerId peer, Outcome outcome, SteadyTime now) {
  const auto found = targets_.find(peer);
  if (found == targets_.end() || found->second.open == 0) return false;
  Target& target = found->second;
  target.all_refused = target.all_refused && outcome == Outcome::refused;
  if (--target.open > 0) return false;
  back_off(target, now);
  return target.all_refused;
}

void Dialer::connected(PeerId peer) {
  const auto found = targets_.find(peer);
  if (found == targets_.end()) return;
  found->second.state = Target::State::connected;
  found->second.open = 0;
  found->second.delay = Milliseconds(0);
}

void Dialer::lost(PeerId peer, SteadyTime now) {
  const auto found = targets_.find(peer);
  if (found != targets_.end()) back_off(found->second, now);
}

}  // namespace mlk::rt
