// Which members may continue without which others, and which members are excluded because others cannot reach
// them. A1, A2 ... are the rules of PROTOCOLS.md, "The rules of the agreement".
#include <algorithm>
#include <set>
#include <utility>

#include "runtime/base/code_probe.h"
#include "runtime/membership/assembly.h"
#include "runtime/membership/assembly_times.h"

namespace mlk::rt {

// A4. The proposal follows a generation. Returns whether a later generation has begun and may still continue.
// The members of that later generation may be unknown here, so the answer is true until all ranks outside the
// proposal are dead.
bool Assembly::passed_over(const ProposeMessage& proposal, SteadyTime now) const {
  if (proposal.lineage != lineage_ || proposal.follows >= begun_) return false;
  return std::any_of(views_.begin(), views_.end(), [&](const auto& entry) {
    const auto& [rank, view] = entry;
    const bool proposed = std::ranges::any_of(
        proposal.members, [&](const auto& invited) { return invited.member.rank == rank; });
    return !proposed && view.incarnation != 0 && !is_dead(view, now);
  });
}

// A live process that has only lost its connection dials again within return_patience.
bool Assembly::is_dead(const View& view, SteadyTime now) {
  return view.standing == Standing::dead && now - view.lost >= return_patience;
}

// A6. Whether the proposal has enough members of the last generation to continue without the others. The
// others count as silent even if they are heard: they may have continued, or be about to.
bool Assembly::may_follow(const Generation& last, const Proposal& proposal, SteadyTime now) const {
  std::map<std::uint32_t, Standing> standings;
  for (const Member& member : last.members) standings[member.rank] = standing_of(member, last, proposal, now);
  return may_form_next(last, standings);
}

// A7. The standing of the member when this rank decides whether the members of the proposal may continue.
Standing Assembly::standing_of(const Member& member, const Generation& last, const Proposal& proposal,
                               SteadyTime now) const {
  if (proposal.contains(member)) return Standing::live;
  const auto view = views_.find(member.rank);
  if (view == views_.end()) return Standing::silent;
  // A newer incarnation proves the end of the older one.
  const bool replaced = view->second.incarnation != member.incarnation;
  if (!replaced && !is_dead(view->second, now)) return Standing::silent;
  const bool may_have_gone_on = may_have_gone_on_.contains(member) || !have_begun_.contains(member);
  if (may_have_gone_on && others_suffice(last, proposal) && !knows_of_all_others(member.rank, proposal)) {
    code_probe("allreduce.may-have-gone-on");
    return Standing::silent;
  }
  code_probe("allreduce.counts-as-dead");
  return Standing::dead;
}

// Whether the members outside the proposal were enough to continue without the members in it.
bool Assembly::others_suffice(const Generation& last, const Proposal& proposal) {
  std::map<std::uint32_t, Standing> standings;
  for (const Member& member : last.members)
    standings[member.rank] = proposal.contains(member) ? Standing::silent : Standing::live;
  return may_form_next(last, standings);
}

// The rank `ended` has ended. Returns whether each other rank is in the proposal, or has sent its status
// since that end. An earlier status may be outdated, and the next process of a dead rank may have been let
// in.
bool Assembly::knows_of_all_others(std::uint32_t ended, const Proposal& proposal) const {
  const SteadyTime end = views_.at(ended).lost;
  for (std::uint32_t rank = 0; rank < settings_.workers; ++rank) {
    const bool proposed =
        std::ranges::any_of(proposal.members, [rank](const Member& member) { return member.rank == rank; });
    if (rank == ended || proposed) continue;
    const auto view = views_.find(rank);
    const bool has_told = view != views_.end() && view->second.standing == Standing::live &&
                          view->second.known && view->second.told >= end;
    if (!has_told) return false;
  }
  return true;
}

// A8. Whether the proposal has enough members of every promised proposal. A promised generation may have
// begun at other ranks: only its proposer knows whether it has begun.
bool Assembly::honours_promises(const Proposal& proposal, Member proposer, SteadyTime now) const {
  return promises_.are_kept(proposer, [&](const Proposal& promised) {
    return may_follow({promised.number, promised.members}, proposal, now);
  });
}

// A10. Whether generation_ began with a state that no rank in the proposal has, while a rank outside the
// proposal, member or not, may have it. A member that lags does not have the state yet.
bool Assembly::loses_steps(const Proposal& proposal, SteadyTime now) const {
  const auto has_it = [&](const Member& member) {
    if (const auto accepted = accepted_.find(member.rank); own_ && accepted != accepted_.end())
      return accepted->second && accepted->second->step >= beginning_.step;
    return progress_of(member.rank) > beginning_.step;
  };
  if (beginning_.step == 0 || std::ranges::any_of(proposal.members, has_it)) return false;
  for (std::uint32_t rank = 0; rank < settings_.workers; ++rank) {
    if (rank == self_.rank) continue;
    const auto found = views_.find(rank);
    if (found == views_.end()) return true;  // this process has never met the rank
    const View& view = found->second;
    if (proposal.contains({rank, view.incarnation}) || is_dead(view, now)) continue;
    const bool has_told = view.standing == Standing::live && view.known;
    if (!has_told || progress_of(rank) > beginning_.step) return true;
  }
  return false;
}

void Assembly::note_may_have_gone_on(Member member) {
  const bool matters = generation_.contains(member) || promises_.concern(member);
  if (matters) may_have_gone_on_.insert(member);
}

void Assembly::note_cut(std::uint32_t one, std::uint32_t other, SteadyTime now) {
  if (!views_.contains(one) || !views_.contains(other)) return;
  const Cuts::Noted noted = cuts_.note(one, other, now);
  if (noted == Cuts::Noted::known) return;  // the other rank has reported the cut already
  code_probe("allreduce.cut-noted");
  if (noted == Cuts::Noted::again) code_probe("allreduce.cut-again");
}

// 1 + the step of the rank's state, as far as this process knows; 0 if it knows of no state.
std::uint64_t Assembly::progress_of(std::uint32_t rank) const {
  if (rank == self_.rank) return state_ ? state_->step + 1 : 0;
  const auto view = views_.find(rank);
  const bool has_state = view != views_.end() && view->second.known && view->second.status.step;
  return has_state ? *view->second.status.step + 1 : 0;
}

// Whether `rank` has no state, or is at least two steps behind a live rank. One step does not count, because
// the sum of that step may be under way.
bool Assembly::is_behind(std::uint32_t rank) const {
  std::uint64_t newest = progress_of(self_.rank);
  for (const auto& [other, view] : views_) {
    if (view.standing == Standing::live) newest = std::max(newest, progress_of(other));
  }
  return progress_of(rank) == 0 || progress_of(rank) + 1 < newest;
}

// A14. The ranks to exclude so that all other ranks can reach each other.
std::set<std::uint32_t> Assembly::left_out(SteadyTime now) const {
  return cuts_.left_out(now, {.is_behind = [this](std::uint32_t rank) { return is_behind(rank); },
                              .is_member = [this](std::uint32_t rank) { return is_member(rank); }});
}

// Excludes the ranks of left_out() from the proposal, if the remaining members may continue without them.
void Assembly::leave_out_cut_off(Proposal& proposal, SteadyTime now) const {
  Proposal rest = proposal;
  const std::set<std::uint32_t> out = left_out(now);
  std::erase_if(rest.members, [&](const Member& member) { return out.contains(member.rank); });
  if (rest.members.size() == proposal.members.size()) return;
  if (!may_follow(generation_, rest, now) || !honours_promises(rest, self_, now) || loses_steps(rest, now))
    return;
  code_probe("allreduce.cut-off-excluded");
  proposal = std::move(rest);
}

}  // namespace mlk::rt
