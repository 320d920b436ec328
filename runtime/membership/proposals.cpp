// Proposals of the next generation, the votes for them, and its beginning.
#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/base/code_probe.h"
#include "runtime/membership/assembly.h"
#include "runtime/membership/assembly_times.h"

namespace mlk::rt {

void Assembly::on_propose(const Event& event, SteadyTime now, Effects& effects) {
  const auto message = decode_propose(event.header, event.payload);
  if (!message) return;
  Proposal proposal{message->number, message->follows, message->lineage, {}};
  for (const auto& invited : message->members) proposal.members.push_back(invited.member);
  // A member accepts proposals of its own lineage only.
  const bool stranger = generation_.number != 0 && proposal.lineage != lineage_;
  // The run has gone on without the proposer, which has not heard of it yet.
  const bool outdated = message->follows < generation_.number || passed_over(*message, now);
  if (outdated) send_status(event.peer.rank, effects);
  const Member proposer{event.peer.rank, event.incarnation};
  note_may_have_gone_on(proposer);
  const bool broken_promise = !keeps_promises(proposal, proposer, now);
  // Without votes only this order keeps two proposers that do not hear each other from taking turns for ever.
  const bool starts = message->follows == 0 && generation_.number == 0;
  const bool after_another = starts && theirs_ && theirs_->to.rank < proposer.rank;
  if (proposal.number <= promised_ || stranger || outdated || broken_promise || after_another) {
    if (outdated) code_probe("allreduce.refused-outdated");
    if (stranger) code_probe("allreduce.refused-lineage");
    if (broken_promise) code_probe("allreduce.refused-promise");
    if (after_another) code_probe("allreduce.refused-order");
    if (!outdated && !stranger && !broken_promise && !after_another) code_probe("allreduce.refused-number");
    return effects.send(event.peer, encode(RefuseMessage{promised_, proposal.number, {}}));
  }
  promised_ = proposal.number;
  if (starts && theirs_ && theirs_->to.rank != proposer.rank) {
    code_probe("allreduce.acceptance-withdrawn");
    effects.send({Role::worker, theirs_->to.rank},
                 encode(RefuseMessage{promised_, theirs_->proposal.number, {}}));
  }
  own_.reset();
  current_ = false;
  theirs_ = Promise{std::move(proposal), proposer};
  answered_ = false;
  theirs_since_ = now;
  for (const auto& [member, address] : message->members) {
    if (member.rank < self_.rank && !address.empty()) effects.dial({Role::worker, member.rank}, address);
  }
  answer_proposal(now, effects);
}

// Accepts once all members can be reached; if that takes too long, names a member that cannot.
void Assembly::answer_proposal(SteadyTime now, Effects& effects) {
  if (!theirs_ || answered_) return;
  const PeerId proposer{Role::worker, theirs_->to.rank};
  const std::uint64_t number = theirs_->proposal.number;
  for (const Member& member : theirs_->proposal.members) {
    if (member == self_) continue;
    const auto view = views_.find(member.rank);
    const bool there = view != views_.end() && view->second.standing == Standing::live &&
                       view->second.incarnation == member.incarnation;
    if (there) continue;
    if (now - theirs_since_ >= reach_patience) {
      code_probe("allreduce.refused-unreachable");
      effects.send(proposer, encode(RefuseMessage{promised_, number, member.rank}));
      theirs_.reset();
    }
    return;
  }
  answered_ = true;
  code_probe("allreduce.accepted");
  // Only members have a vote. One that has accepted the last generation is a member, even if it has not heard
  // that this generation began.
  const Proposal& proposal = theirs_->proposal;
  if (generation_.contains(self_) || accepted_here_.contains({proposal.lineage, proposal.follows}))
    promises_[theirs_->to] = proposal;
  accepted_here_.emplace(proposal.lineage, proposal.number);
  effects.send(proposer, encode(AcceptMessage{number, state_}));
}

void Assembly::on_accept(const Event& event, SteadyTime now, Effects& effects) {
  const auto accept = decode_accept(event.header, event.payload);
  if (!accept || !own_ || accept->number != own_->number) return;
  if (!own_->contains({event.peer.rank, event.incarnation})) return;  // it was not asked
  accepted_[event.peer.rank] = accept->state;
  begin_if_accepted(now, effects);
}

void Assembly::on_refuse(const Event& event, SteadyTime now, Effects& effects) {
  const RefuseMessage refuse = decode_refuse(event.header);
  promised_ = std::max(promised_, refuse.promised);
  if (refuse.refused == generation_.number)
    return on_begin_refused({event.peer.rank, event.incarnation}, effects);
  if (refuse.refused != proposed_) return;
  // Also after another refusal: all refusals together show which member is at fault.
  if (refuse.unreachable) note_cut(event.peer.rank, *refuse.unreachable, now);
  own_.reset();
  not_before_ = now + retry_pause;
  code_probe("allreduce.proposal-refused");
}

// A generation of this process that a member did not begin is over. One that follows none, and that no other
// member has begun, has never been: this process is free to take part in the start of another.
void Assembly::on_begin_refused(Member member, Effects& effects) {
  if (!generation_.contains(member)) return;
  code_probe("allreduce.begin-refused");
  note_may_have_gone_on(member);
  current_ = false;
  did_not_begin_.insert(member);
  if (!starts_run_ || did_not_begin_.size() + 1 < generation_.members.size()) return;
  code_probe("allreduce.never-begun");
  generation_ = Generation();
  send_status_to_all(effects);
}

void Assembly::note_cut(std::uint32_t one, std::uint32_t other, SteadyTime now) {
  if (!views_.contains(one) || !views_.contains(other)) return;
  auto& [until, pause] = cuts_[std::minmax(one, other)];
  if (now < until) return;  // the other one has reported it already
  code_probe("allreduce.cut-noted");
  pause = cut_pause(pause);
  until = now + pause;
}

// 1 + the step of the state that this rank is known to have; 0 without one.
std::uint64_t Assembly::progress_of(std::uint32_t rank) const {
  if (rank == self_.rank) return state_ ? state_->step + 1 : 0;
  const auto view = views_.find(rank);
  const bool has_state = view != views_.end() && view->second.known && view->second.status.step;
  return has_state ? *view->second.status.step + 1 : 0;
}

// Whether a live rank has steps that this one lacks, other than the one that is being summed up.
bool Assembly::is_behind(std::uint32_t rank) const {
  std::uint64_t newest = progress_of(self_.rank);
  for (const auto& [other, view] : views_) {
    if (view.standing == Standing::live) newest = std::max(newest, progress_of(other));
  }
  return progress_of(rank) == 0 || progress_of(rank) + 1 < newest;
}

// Ranks to exclude so that the rest can all reach each other. Repeatedly takes the rank with the most broken
// links, first of those that are behind. Of several such ranks it prefers one that is no member, then the
// highest.
std::set<std::uint32_t> Assembly::left_out(SteadyTime now) const {
  std::set<std::uint32_t> out;
  while (true) {
    std::map<std::uint32_t, int> cuts_of;
    for (const auto& [pair, cut] : cuts_) {
      if (now >= cut.until || out.contains(pair.first) || out.contains(pair.second)) continue;
      ++cuts_of[pair.first];
      ++cuts_of[pair.second];
    }
    if (cuts_of.empty()) return out;
    const auto weight = [&](const auto& entry) {
      return std::tuple(is_behind(entry.first), entry.second, !is_member(entry.first), entry.first);
    };
    out.insert(std::ranges::max_element(cuts_of, {}, weight)->first);
  }
}

void Assembly::on_begin(const Event& event, Effects& effects) {
  const std::uint64_t number = event.header.generation;
  const bool awaited = theirs_ && answered_ && theirs_->proposal.number == number &&
                       theirs_->to == Member{event.peer.rank, event.incarnation};
  if (!awaited) {
    // Too late: this rank no longer waits for it, or has accepted another proposal since. Without an answer
    // the others would wait for it in the first sum.
    if (number > generation_.number) {
      code_probe("allreduce.begin-too-late");
      effects.send(event.peer, encode(RefuseMessage{promised_, number, {}}));
    }
    return;
  }
  auto message = decode_begin(event.header, event.payload);
  if (!message) return;
  Proposal proposal = std::exchange(theirs_, {})->proposal;
  if (proposal.lineage == lineage_ && proposal.number < begun_) return;  // it is over already
  code_probe("allreduce.begun-elsewhere");
  begin(std::move(proposal), message->restarts,
        {message->step, message->source, std::move(message->lagging)});
}

void Assembly::begin(Proposal&& proposal, std::uint64_t restarts, Beginning&& beginning) {
  restarts_ = restarts;
  generation_ = {proposal.number, std::move(proposal.members)};
  lineage_ = proposal.lineage;
  begun_ = generation_.number;
  promises_.clear();
  accepted_here_.clear();
  may_have_gone_on_.clear();
  have_begun_.clear();
  did_not_begin_.clear();
  beginning_ = std::move(beginning);
  if (state_ && !beginning_.lagging.contains(self_.rank)) state_->lineage = lineage_;
  current_ = true;
}

// Whether a later generation than the one that the proposal follows has begun, and may still go on. This
// process may not know its members, so the answer is true until all ranks outside of the proposal are dead.
bool Assembly::passed_over(const ProposeMessage& proposal, SteadyTime now) const {
  if (proposal.lineage != lineage_ || proposal.follows >= begun_) return false;
  return std::any_of(views_.begin(), views_.end(), [&](const auto& entry) {
    const auto& [rank, view] = entry;
    const bool proposed = std::ranges::any_of(
        proposal.members, [&](const auto& invited) { return invited.member.rank == rank; });
    return !proposed && view.incarnation != 0 && !is_dead(view, now);
  });
}

// A process that lives and has only lost its connection dials again within return_patience.
bool Assembly::is_dead(const View& view, SteadyTime now) {
  return view.standing == Standing::dead && now - view.lost >= return_patience;
}

// Whether the members of a proposal are enough of the last generation to go on without its other members.
// Other members count as silent even if they are heard: they may have gone on already, or be about to.
bool Assembly::may_follow(const Generation& last, const Proposal& proposal, SteadyTime now) const {
  std::map<std::uint32_t, Standing> standings;
  for (const Member& member : last.members) standings[member.rank] = standing_of(member, last, proposal, now);
  return may_form_next(last, standings);
}

Standing Assembly::standing_of(const Member& member, const Generation& last, const Proposal& proposal,
                               SteadyTime now) const {
  if (proposal.contains(member)) return Standing::live;
  const auto view = views_.find(member.rank);
  if (view == views_.end()) return Standing::silent;
  // A newer incarnation proves the end of the older.
  const bool replaced = view->second.incarnation != member.incarnation;
  if (!replaced && !is_dead(view->second, now)) return Standing::silent;
  const bool may_have_gone_on = may_have_gone_on_.contains(member) || !have_begun_.contains(member);
  if (may_have_gone_on && others_suffice(last, proposal) && !knows_of_all_others(member.rank, proposal)) {
    code_probe("allreduce.may-have-gone-on");
    return Standing::silent;
  }
  return Standing::dead;
}

// Whether the members that are not in the proposal were enough to go on without those in it.
bool Assembly::others_suffice(const Generation& last, const Proposal& proposal) {
  std::map<std::uint32_t, Standing> standings;
  for (const Member& member : last.members)
    standings[member.rank] = proposal.contains(member) ? Standing::silent : Standing::live;
  return may_form_next(last, standings);
}

// Whether each other rank of the run is in the proposal, or has told since that end where it is. A rank that
// has told before may have been let in after it, and so may the next process of a dead one.
bool Assembly::knows_of_all_others(std::uint32_t than, const Proposal& proposal) const {
  const SteadyTime end = views_.at(than).lost;
  for (std::uint32_t rank = 0; rank < settings_.workers; ++rank) {
    const bool proposed =
        std::ranges::any_of(proposal.members, [rank](const Member& member) { return member.rank == rank; });
    if (rank == than || proposed) continue;
    const auto view = views_.find(rank);
    const bool has_told = view != views_.end() && view->second.standing == Standing::live &&
                          view->second.known && view->second.told >= end;
    if (!has_told) return false;
  }
  return true;
}

// A generation that was accepted here may have begun elsewhere; only its proposer knows that it has not.
bool Assembly::keeps_promises(const Proposal& proposal, Member proposer, SteadyTime now) const {
  return std::ranges::all_of(promises_, [&](const auto& promise) {
    const auto& [to, accepted] = promise;
    return to == proposer || may_follow({accepted.number, accepted.members}, proposal, now);
  });
}

// Whether the generation began at a step that nobody in the proposal has come to: a member that lags has not
// had the state yet, and one that has it may live.
bool Assembly::loses_steps(const Proposal& proposal, SteadyTime now) const {
  const auto has_it = [&](const Member& member) {
    if (const auto accepted = accepted_.find(member.rank); own_ && accepted != accepted_.end())
      return accepted->second && accepted->second->step >= beginning_.step;
    if (member == self_) return state_ && state_->step >= beginning_.step;
    const auto view = views_.find(member.rank);
    return view != views_.end() && view->second.status.step.value_or(0) >= beginning_.step;
  };
  if (beginning_.step == 0 || std::ranges::any_of(proposal.members, has_it)) return false;
  return std::ranges::any_of(generation_.members, [&](const Member& member) {
    return standing_of(member, generation_, proposal, now) == Standing::silent;
  });
}

void Assembly::note_may_have_gone_on(Member member) {
  const bool matters =
      generation_.contains(member) ||
      std::ranges::any_of(promises_, [&](const auto& promise) { return promise.second.contains(member); });
  if (matters) may_have_gone_on_.insert(member);
}

std::optional<Assembly::Proposal> Assembly::may_propose(SteadyTime now) {
  if (now < not_before_) return {};
  Proposal proposal;
  proposal.members.push_back(self_);
  bool somebody_trains = false;
  for (const auto& [rank, view] : views_) {
    // A rank that was seen to train may still do so, even if it is not heard any more.
    if (view.status.generation != 0 && !is_dead(view, now)) somebody_trains = true;
    if (view.standing != Standing::live || !view.known) continue;
    if (is_member(rank) || newcomer(rank, view, now)) proposal.members.push_back({rank, view.incarnation});
  }
  std::sort(proposal.members.begin(), proposal.members.end());
  const bool member = generation_.number != 0;
  if (member) {
    leave_out_cut_off(proposal, now);
    if (!is_to_propose()) return {};
    if (!may_follow(generation_, proposal, now)) {
      code_probe("allreduce.no-quorum");
      return {};
    }
    if (loses_steps(proposal, now)) {
      code_probe("allreduce.waits-for-state");
      return {};
    }
  } else {
    // Those that waited for others to let them in now wait for a start, which takes all of them: their
    // patience must not end one after the other.
    if (std::exchange(waits_to_be_let_in_, somebody_trains) && !somebody_trains) wait_.restart(now);
    if (somebody_trains || proposal.members.front() != self_) {
      enough_since_.reset();
      return {};
    }
  }
  bool state_somewhere = state_.has_value();
  for (const Member& m : proposal.members) {
    if (m != self_ && views_.at(m.rank).status.step) state_somewhere = true;
  }
  if (!member || !state_somewhere) {
    const int minimum = static_cast<int>(settings_.minimum), count = static_cast<int>(settings_.workers);
    const int present = static_cast<int>(proposal.members.size());
    if (present < minimum) enough_since_.reset();
    if (present >= minimum && !enough_since_) enough_since_ = now;
    const double waited = enough_since_ ? std::chrono::duration<double>(now - *enough_since_).count() : 0;
    if (!may_start(present, count, minimum, waited)) return {};
    if (present < count) code_probe("allreduce.start-grace");
  }
  proposal.number = std::max(promised_, generation_.number) + 1;
  proposal.lineage = member ? lineage_ : settings_.new_lineage();
  if (!keeps_promises(proposal, self_, now)) {
    code_probe("allreduce.promise-kept");
    return {};
  }
  return proposal;
}

// Excludes one of two members that cannot reach each other, if the others are enough without it.
void Assembly::leave_out_cut_off(Proposal& proposal, SteadyTime now) const {
  Proposal rest = proposal;
  std::erase_if(rest.members,
                [out = left_out(now)](const Member& member) { return out.contains(member.rank); });
  if (rest.members.size() == proposal.members.size()) return;
  if (!may_follow(generation_, rest, now) || !keeps_promises(rest, self_, now) || loses_steps(rest, now))
    return;
  code_probe("allreduce.cut-off-excluded");
  proposal = std::move(rest);
}

// Where others find a rank that is not among the seeds; empty for one that is.
std::string Assembly::address_beyond_seeds(std::uint32_t rank) const {
  if (rank < settings_.seeds) return "";
  if (rank == self_.rank) return settings_.address;
  const auto view = views_.find(rank);
  return view == views_.end() ? "" : view->second.address;
}

void Assembly::propose(Proposal proposal, SteadyTime now, Effects& effects) {
  promised_ = proposed_ = proposal.number;
  ProposeMessage message{proposal.number, generation_.number, proposal.lineage, {}};
  for (const Member& member : proposal.members)
    message.members.push_back({member, address_beyond_seeds(member.rank)});
  for (const Member& member : proposal.members) {
    if (member != self_) effects.send({Role::worker, member.rank}, encode(message));
  }
  own_ = std::move(proposal);
  own_since_ = now;
  code_probe("allreduce.proposed");
  accepted_.clear();
  accepted_[self_.rank] = state_;
  begin_if_accepted(now, effects);
}

bool Assembly::all_have_accepted() const { return own_ && accepted_.size() == own_->members.size(); }

bool Assembly::wants_state() const {
  return all_have_accepted() &&
         std::ranges::none_of(accepted_, [](const auto& accepted) { return accepted.second.has_value(); });
}

void Assembly::state_made(StateVersion state, std::uint64_t restarts, SteadyTime now, Effects& effects) {
  if (!wants_state()) return;
  state.lineage = own_->lineage;
  state_ = accepted_[self_.rank] = state;
  restarts_ = std::max(restarts_, restarts);
  if (now - own_since_ >= propose_patience) {  // the others may no longer wait for the beginning
    code_probe("allreduce.state-made-late");
    own_.reset();
  } else {
    begin_own(effects);
  }
  tick(now, effects);
}

void Assembly::begin_if_accepted(SteadyTime now, Effects& effects) {
  if (!all_have_accepted()) return;
  if (loses_steps(*own_, now)) {  // a state has been lost since its status came
    own_.reset();
    not_before_ = now + retry_pause;
    return;
  }
  if (!wants_state()) begin_own(effects);
}

// The generation begins at the newest step that a member has. A member that came to the same step in another
// generation lags as well: its samples were divided differently, so its sums were rounded differently.
Beginning Assembly::choose_beginning() const {
  Beginning beginning;
  // The proposer sends the state if it can: it knows that all can reach it.
  beginning.source = self_.rank;
  for (const auto& [rank, state] : accepted_) {
    if (state > accepted_.at(beginning.source)) beginning.source = rank;
  }
  const auto& newest = accepted_.at(beginning.source);
  beginning.step = newest->step;
  for (const auto& [rank, state] : accepted_) {
    if (state != newest) beginning.lagging.insert(rank);
  }
  return beginning;
}

// Everyone has accepted: the generation begins.
void Assembly::begin_own(Effects& effects) {
  Beginning beginning = choose_beginning();
  Proposal proposal = *std::exchange(own_, {});
  const bool restart = !std::ranges::all_of(generation_.members,
                                            [&](const Member& member) { return proposal.contains(member); });
  if (restart) code_probe("allreduce.begun-after-loss");
  if (!beginning.lagging.empty()) code_probe("allreduce.begun-with-lagging");
  starts_run_ = generation_.number == 0;
  begin(std::move(proposal), restarts_ + (restart ? 1 : 0), std::move(beginning));
  forget_cuts([&](std::uint32_t one, std::uint32_t other) { return is_member(one) && is_member(other); });
  for (const Member& member : generation_.members) {
    if (member == self_) continue;
    effects.send({Role::worker, member.rank},
                 encode(BeginMessage{generation_.number, beginning_.step, restarts_, beginning_.source,
                                     beginning_.lagging}));
  }
  effects.log("generation " + std::to_string(generation_.number) + ": " +
              std::to_string(generation_.members.size()) + " of " + std::to_string(settings_.workers) +
              " workers from step " + std::to_string(beginning_.step));
}

}  // namespace mlk::rt
