// Who proposes the next generation, who may vote for it, and how it begins.
#include <algorithm>
#include <tuple>

#include "runtime/base/payload.h"
#include "runtime/membership/assembly.h"
#include "runtime/transport/handshake.h"

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr Milliseconds reach_patience{2500}, retry_pause{100};
// A member whose connection has ended may have been cut off: it dials again much sooner than this.
constexpr Milliseconds return_patience{1000};
constexpr std::uint32_t most_members = 65536;

std::uint64_t random_lineage() {
  const Nonce nonce = random_nonce();
  std::uint64_t lineage = 0;
  std::copy_n(nonce.begin(), sizeof lineage, reinterpret_cast<std::byte*>(&lineage));
  return lineage | 1;
}

}  // namespace

// header.clock: the generation that the proposal is to follow.
void Assembly::on_propose(const Event& event) {
  PayloadReader reader(event.payload);
  Proposal proposal;
  proposal.number = event.header.generation;
  proposal.lineage = reader.get<std::uint64_t>();
  const auto count = reader.get<std::uint32_t>();
  if (count > most_members) return;
  std::map<std::uint32_t, std::string> addresses;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    const auto rank = reader.get<std::uint32_t>();
    proposal.members.push_back({rank, reader.get<std::uint64_t>()});
    addresses[rank] = reader.text();
  }
  if (!reader.complete()) return;
  // A member follows members of its own past only.
  const bool stranger = generation_.number != 0 && proposal.lineage != lineage_;
  // The run has gone on without the proposer, which has not heard of it yet.
  const bool outdated = event.header.clock < generation_.number || passed_over(proposal, event.header.clock);
  if (outdated) send_status(event.peer.rank);
  if (proposal.number <= promised_ || stranger || outdated || !keeps_pledge(proposal, event.peer.rank)) {
    return send(event.peer.rank, MessageType::refuse, promised_, proposal.number);
  }
  promised_ = proposal.number;
  own_.reset();
  current_ = false;
  theirs_ = std::move(proposal);
  proposer_ = event.peer.rank;
  answered_ = false;
  theirs_since_ = steady_clock::now();
  for (const auto& [rank, address] : addresses) {
    if (rank < self_.rank && !address.empty()) peers_.transport().dial({Role::worker, rank}, address);
  }
  answer_proposal();
}

// Accepts once all members can be reached; if that takes too long, says who cannot.
void Assembly::answer_proposal() {
  if (!theirs_ || answered_) return;
  for (const Member& member : theirs_->members) {
    if (member == self_) continue;
    const auto view = views_.find(member.rank);
    const bool there = view != views_.end() && view->second.standing == Standing::live &&
                       view->second.incarnation == member.incarnation;
    if (there) continue;
    if (steady_clock::now() - theirs_since_ > reach_patience) {
      send(proposer_, MessageType::refuse, promised_, theirs_->number, member.rank + 1);
      theirs_.reset();
    }
    return;
  }
  answered_ = true;
  // Only members have a vote.
  if (generation_.contains(self_)) {
    pledged_ = theirs_;
    pledged_to_ = proposer_;
  }
  const auto own = callbacks_.own_state();
  send(proposer_, MessageType::accept, theirs_->number, own ? own->step : no_step, 0, {},
       own ? own->summed_in : 0);
}

// header.clock: the step of the own state, header.offset: its summed_in.
void Assembly::on_accept(const Event& event) {
  if (!own_ || event.header.generation != own_->number) return;
  const Member who{event.peer.rank, event.incarnation};
  if (std::ranges::find(own_->members, who) == own_->members.end()) return;  // it was not asked
  auto& state = accepted_[event.peer.rank];
  state.reset();
  if (event.header.clock != no_step) state = StateVersion{event.header.clock, event.header.offset};
  if (accepted_.size() == own_->members.size()) begin_own();
}

// header.generation: what the refuser has promised; header.clock: what it refuses; header.key: 1 + the rank
// that it cannot reach, 0 if that is not the reason.
void Assembly::on_refuse(const Event& event) {
  promised_ = std::max(promised_, event.header.generation);
  if (event.header.clock != proposed_) return;
  // Also after another has refused: who is at fault is seen by all of them together.
  if (event.header.key > 0) note_cut(event.peer.rank, event.header.key - 1);
  own_.reset();
  not_before_ = steady_clock::now() + retry_pause;
}

void Assembly::note_cut(std::uint32_t one, std::uint32_t other) {
  if (!views_.contains(one) || !views_.contains(other)) return;
  const auto now = steady_clock::now();
  auto& [until, pause] = cuts_[std::minmax(one, other)];
  if (now < until) return;  // both have said so
  pause = cut_pause(pause);
  until = now + pause;
}

// Those without whom no two are left that cannot reach each other: first who cannot reach the most, rather
// who is no member, and else always the same one.
std::set<std::uint32_t> Assembly::left_out() const {
  std::set<std::uint32_t> out;
  const auto now = steady_clock::now();
  while (true) {
    std::map<std::uint32_t, int> cuts_of;
    for (const auto& [pair, cut] : cuts_) {
      if (now >= cut.until || out.contains(pair.first) || out.contains(pair.second)) continue;
      ++cuts_of[pair.first];
      ++cuts_of[pair.second];
    }
    if (cuts_of.empty()) return out;
    const auto weight = [&](const auto& entry) {
      return std::tuple(entry.second, !is_member(entry.first), entry.first);
    };
    out.insert(std::ranges::max_element(cuts_of, {}, weight)->first);
  }
}

void Assembly::on_begin(const Event& event) {
  if (!theirs_ || event.peer.rank != proposer_ || event.header.generation != theirs_->number || !answered_) {
    // Too late, for one who no longer waited for it, or has accepted another since: whoever began it would
    // wait for this rank in the first sum.
    if (event.header.generation > generation_.number)
      send(event.peer.rank, MessageType::trouble, event.header.generation);
    return;
  }
  PayloadReader reader(event.payload);
  Beginning beginning;
  beginning.step = event.header.clock;
  beginning.feeder = event.header.key;
  const auto restarts = reader.get<std::uint64_t>();
  const auto hungry = reader.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < hungry && reader.ok(); ++i)
    beginning.hungry.insert(reader.get<std::uint32_t>());
  if (!reader.complete()) return;
  if (theirs_->lineage == lineage_ && theirs_->number < begun_)
    return theirs_.reset();  // and is over already
  restarts_ = restarts;
  generation_ = {theirs_->number, theirs_->members};
  lineage_ = theirs_->lineage;
  begun_ = generation_.number;
  theirs_.reset();
  pledged_.reset();
  beginning_ = std::move(beginning);
  current_ = true;
}

// Whether a later generation than the one that the proposal follows has begun, and may still go on: also one
// without this process, which need not know who its members are. So it holds until all others are dead.
bool Assembly::passed_over(const Proposal& proposal, std::uint64_t follows) const {
  if (proposal.lineage != lineage_ || follows >= begun_) return false;
  return std::any_of(views_.begin(), views_.end(), [&](const auto& entry) {
    const auto& [rank, view] = entry;
    const bool proposed =
        std::ranges::any_of(proposal.members, [&](const Member& member) { return member.rank == rank; });
    return !proposed && view.incarnation != 0 && !is_dead(view);
  });
}

// Not before it would have dialled again.
bool Assembly::is_dead(const View& view) {
  return view.standing == Standing::dead && steady_clock::now() - view.lost >= return_patience;
}

// Whether the members of a proposal are enough of this generation to go on without its other members. Those
// count as silent although they are heard of: they may have gone on already, or be about to.
bool Assembly::may_follow(const Generation& last, const Proposal& proposal) const {
  std::map<std::uint32_t, Standing> standings;
  for (const Member& member : last.members) {
    const auto view = views_.find(member.rank);
    if (std::ranges::find(proposal.members, member) != proposal.members.end()) {
      standings[member.rank] = Standing::live;
    } else if (view == views_.end()) {
      standings[member.rank] = Standing::silent;
    } else if (view->second.incarnation != member.incarnation) {
      standings[member.rank] = Standing::dead;  // a newer incarnation proves the end of the older
    } else {
      standings[member.rank] = is_dead(view->second) ? Standing::dead : Standing::silent;
    }
  }
  return may_form_next(last, standings);
}

// The generation that was accepted here last may have begun elsewhere; only its proposer knows that it has
// not.
bool Assembly::keeps_pledge(const Proposal& proposal, std::uint32_t proposer) const {
  return !pledged_ || proposer == pledged_to_ || may_follow({pledged_->number, pledged_->members}, proposal);
}

std::optional<Assembly::Proposal> Assembly::may_propose() {
  const auto now = steady_clock::now();
  if (now < not_before_) return {};
  Proposal proposal;
  proposal.members.push_back(self_);
  bool somebody_trains = false;
  for (const auto& [rank, view] : views_) {
    // Who trains goes on, also when it is not heard of any more.
    if (view.generation != 0 && !is_dead(view)) somebody_trains = true;
    if (view.standing != Standing::live || !view.known) continue;
    if (is_member(rank) || newcomer(rank, view)) proposal.members.push_back({rank, view.incarnation});
  }
  std::sort(proposal.members.begin(), proposal.members.end());
  const bool member = generation_.number != 0;
  if (member) {
    leave_out_cut_off(proposal);
    if (!is_to_propose() || !may_follow(generation_, proposal)) return {};
  } else if (somebody_trains || proposal.members.front() != self_) {
    enough_since_.reset();
    return {};
  }
  bool state_somewhere = callbacks_.own_state().has_value();
  for (const Member& m : proposal.members) {
    if (m != self_ && views_[m.rank].step != no_step) state_somewhere = true;
  }
  if (!member || !state_somewhere) {
    const int minimum = job_.config.workers.min;
    const int present = static_cast<int>(proposal.members.size());
    if (present < minimum) enough_since_.reset();
    if (present >= minimum && !enough_since_) enough_since_ = now;
    const double waited = enough_since_ ? std::chrono::duration<double>(now - *enough_since_).count() : 0;
    if (!may_start(present, job_.config.workers.count, minimum, waited)) return {};
  }
  proposal.number = std::max(promised_, generation_.number) + 1;
  proposal.lineage = member ? lineage_ : random_lineage();
  if (!keeps_pledge(proposal, self_.rank)) return {};
  return proposal;
}

// Of two members that cannot reach each other one has to go, if the others are enough without it.
void Assembly::leave_out_cut_off(Proposal& proposal) const {
  Proposal rest = proposal;
  std::erase_if(rest.members, [out = left_out()](const Member& member) { return out.contains(member.rank); });
  if (may_follow(generation_, rest) && keeps_pledge(rest, self_.rank)) proposal = std::move(rest);
}

// Where others find a rank that is not among the seeds; empty for one that is.
std::string Assembly::address_beyond_seeds(std::uint32_t rank) const {
  if (rank < job_.env.seeds_worker.size()) return "";
  const auto view = views_.find(rank);
  return rank == self_.rank ? peers_.transport().address() : view == views_.end() ? "" : view->second.address;
}

void Assembly::propose(const Proposal& proposal) {
  promised_ = proposed_ = proposal.number;
  own_ = proposal;
  own_since_ = steady_clock::now();
  accepted_.clear();
  PayloadWriter payload;
  payload.put(proposal.lineage).put(static_cast<std::uint32_t>(proposal.members.size()));
  for (const Member& member : proposal.members)
    payload.put(member.rank).put(member.incarnation).text(address_beyond_seeds(member.rank));
  for (const Member& member : proposal.members) {
    if (member != self_)
      send(member.rank, MessageType::propose, proposal.number, generation_.number, 0, payload.bytes());
  }
  accepted_[self_.rank] = callbacks_.own_state();
  if (proposal.members.size() == 1) begin_own();
}

// At the newest step that anyone has. Who has come to the same step by another sum is fed as well: there the
// samples were divided in another way, and so rounded in another.
Beginning Assembly::choose_beginning() const {
  Beginning beginning;
  // The proposer feeds if it can: it knows that all can reach it.
  beginning.feeder = self_.rank;
  for (const auto& [rank, state] : accepted_) {
    if (state > accepted_.at(beginning.feeder)) beginning.feeder = rank;
  }
  const auto& newest = accepted_.at(beginning.feeder);
  beginning.step = newest->step;
  for (const auto& [rank, state] : accepted_) {
    if (state != newest) beginning.hungry.insert(rank);
  }
  return beginning;
}

// Everyone has accepted: the generation begins.
void Assembly::begin_own() {
  if (std::none_of(accepted_.begin(), accepted_.end(), [](const auto& a) { return a.second.has_value(); })) {
    callbacks_.make_state();
    accepted_[self_.rank] = callbacks_.own_state();
  }
  Beginning beginning = choose_beginning();
  const auto stays = [&](const Member& member) {
    return std::ranges::find(own_->members, member) != own_->members.end();
  };
  if (!std::ranges::all_of(generation_.members, stays)) ++restarts_;
  PayloadWriter payload;
  payload.put(restarts_).put(static_cast<std::uint32_t>(beginning.hungry.size()));
  for (const std::uint32_t rank : beginning.hungry) payload.put(rank);
  generation_ = {own_->number, own_->members};
  lineage_ = own_->lineage;
  begun_ = generation_.number;
  own_.reset();
  pledged_.reset();
  forget_cuts([&](std::uint32_t one, std::uint32_t other) { return is_member(one) && is_member(other); });
  for (const Member& member : generation_.members) {
    if (member != self_) {
      send(member.rank, MessageType::begin, generation_.number, beginning.step, beginning.feeder,
           payload.bytes());
    }
  }
  job_.log.line("generation " + std::to_string(generation_.number) + ": " +
                std::to_string(generation_.members.size()) + " of " +
                std::to_string(job_.config.workers.count) + " workers from step " +
                std::to_string(beginning.step));
  beginning_ = std::move(beginning);
  current_ = true;
}

}  // namespace mlk::rt
