// Proposals of the next generation, the votes for a proposal, and the beginning of the generation. A1, A2 ...
// are the rules of PROTOCOLS.md, "The rules of the agreement".
#include <algorithm>
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
  // A3: the proposal is of another lineage.
  const bool stranger = generation_.number != 0 && proposal.lineage != lineage_;
  // A4: the run has continued without the proposer, and the proposer does not know that yet.
  const bool outdated = message->follows < generation_.number || passed_over(*message, now);
  if (outdated) send_status(event.peer.rank, effects);
  const Member proposer{event.peer.rank, event.incarnation};
  note_may_have_gone_on(proposer);
  if (!generation_.contains(self_)) promises_.bind_newcomer(message->follows, message->lineage);  // A9
  // A8: the proposal has too few members of a promised proposal.
  const bool broken_promise = !honours_promises(proposal, proposer, now);
  // A5. There are no votes before the first generation. So two proposers that do not hear each other could
  // replace each other's proposals for ever. To prevent that, the proposal of the lower rank counts.
  const bool starts = message->follows == 0 && generation_.number == 0;
  const bool after_another = starts && theirs_ && theirs_->to.rank < proposer.rank;
  // A2: the number must be above all promised numbers.
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

// Accepts as soon as this rank can reach all members. If that takes too long, refuses, and names a member
// that this rank cannot reach.
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
  promises_.accepted(theirs_->to, theirs_->proposal, generation_.contains(self_));
  effects.send(proposer, encode(AcceptMessage{number, state_}));
}

void Assembly::on_accept(const Event& event, SteadyTime now, Effects& effects) {
  const auto accept = decode_accept(event.header, event.payload);
  if (!accept || !own_ || accept->number != own_->number) return;
  if (!own_->contains({event.peer.rank, event.incarnation})) return;  // the sender is not invited
  accepted_[event.peer.rank] = accept->state;
  begin_if_accepted(now, effects);
}

void Assembly::on_refuse(const Event& event, SteadyTime now, Effects& effects) {
  const RefuseMessage refuse = decode_refuse(event.header);
  promised_ = std::max(promised_, refuse.promised);
  if (refuse.refused == generation_.number)
    return on_begin_refused({event.peer.rank, event.incarnation}, effects);
  if (refuse.refused != proposed_) return;
  // Later refusals of the same proposal are read, too: only all refusals together show which member is at
  // fault.
  if (refuse.unreachable) note_cut(event.peer.rank, *refuse.unreachable, now);
  own_.reset();
  not_before_ = now + retry_pause;
  code_probe("allreduce.proposal-refused");
}

// A12: a member refuses to begin a generation that this process has proposed, so the generation is over. A5:
// if this is a first generation, and all other members refuse to begin it, the generation counts as never
// begun. Then this process may take part in another start.
void Assembly::on_begin_refused(Member member, Effects& effects) {
  if (!generation_.contains(member)) return;
  code_probe("allreduce.begin-refused");
  note_may_have_gone_on(member);
  current_ = false;
  did_not_begin_.insert(member);
  if (!starts_run_ || did_not_begin_.size() + 1 < generation_.members.size()) return;
  code_probe("allreduce.never-begun");
  generation_ = Generation();
  beginning_ = Beginning();
  send_status_to_all(effects);
}

void Assembly::on_begin(const Event& event, Effects& effects) {
  const std::uint64_t number = event.header.generation;
  const bool awaited = theirs_ && answered_ && theirs_->proposal.number == number &&
                       theirs_->to == Member{event.peer.rank, event.incarnation};
  if (!awaited) {
    // A12: this rank no longer waits for that generation, or has accepted another proposal. So it sends a
    // refusal. Without an answer the other members would wait for this rank in the first sum.
    if (number > generation_.number) {
      code_probe("allreduce.begin-too-late");
      effects.send(event.peer, encode(RefuseMessage{promised_, number, {}}));
    }
    return;
  }
  auto message = decode_begin(event.header, event.payload);
  if (!message) return;
  Proposal proposal = std::exchange(theirs_, {})->proposal;
  if (proposal.lineage == lineage_ && proposal.number < begun_) return;  // that generation is over already
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
  may_have_gone_on_.clear();
  have_begun_.clear();
  did_not_begin_.clear();
  beginning_ = std::move(beginning);
  if (state_ && !beginning_.lagging.contains(self_.rank)) state_->lineage = lineage_;
  current_ = true;
}

// A1. The proposal that this rank may make now, if it may make one.
std::optional<Proposal> Assembly::may_propose(SteadyTime now) {
  if (now < not_before_) return {};
  Proposal proposal;
  proposal.members.push_back(self_);
  bool somebody_trains = false;
  for (const auto& [rank, view] : views_) {
    // If this process has a status of a rank that trains, the rank counts as training until it is dead, even
    // if it is silent.
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
    // If this rank waited to be let in, and the ranks that trained have ended, it waits for a new start
    // instead. The start needs all ranks that wait for it, so each of them restarts its patience here. A rank
    // that a promise binds would only delay the start. So it does not restart its patience: it exits, and its
    // next process has no promises.
    const bool waits_for_start = std::exchange(waits_to_be_let_in_, somebody_trains) && !somebody_trains;
    if (waits_for_start && promises_.empty()) wait_.restart(now);
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
  if (!honours_promises(proposal, self_, now)) {
    code_probe("allreduce.promise-kept");
    return {};
  }
  return proposal;
}

// The address that others need for a rank outside the seeds; empty for a rank in the seeds.
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
  if (not_before_ != SteadyTime()) code_probe("allreduce.proposes-again");
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
  if (now - own_since_ >= propose_patience) {  // the members may have stopped waiting for the begin message
    code_probe("allreduce.state-made-late");
    own_.reset();
  } else {
    begin_own(effects);
  }
  tick(now, effects);
}

void Assembly::begin_if_accepted(SteadyTime now, Effects& effects) {
  if (!all_have_accepted()) return;
  if (loses_steps(*own_, now)) {  // a rank has lost its state since it sent its status
    own_.reset();
    not_before_ = now + retry_pause;
    return;
  }
  if (!wants_state()) begin_own(effects);
}

// A11. The generation begins at the newest step that a member has. A member that reached the same step in
// another generation also lags: that generation divided the samples differently, so the sums were rounded
// differently.
Beginning Assembly::choose_beginning() const {
  Beginning beginning;
  // If the proposer has the newest state, it is the source, because all members can reach the proposer.
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

// All members have accepted: the generation begins.
void Assembly::begin_own(Effects& effects) {
  Beginning beginning = choose_beginning();
  Proposal proposal = *std::exchange(own_, {});
  const bool restart = !std::ranges::all_of(generation_.members,
                                            [&](const Member& member) { return proposal.contains(member); });
  if (restart) code_probe("allreduce.begun-after-loss");
  if (!beginning.lagging.empty()) code_probe("allreduce.begun-with-lagging");
  starts_run_ = generation_.number == 0;
  begin(std::move(proposal), restarts_ + (restart ? 1 : 0), std::move(beginning));
  cuts_.forget([&](std::uint32_t one, std::uint32_t other) { return is_member(one) && is_member(other); });
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
