// How a rank tracks the other ranks, and how it waits for the next generation. Proposals are in
// proposals.cpp. The rules that say who may continue are in quorum.cpp.
#include "runtime/membership/assembly.h"

#include <algorithm>
#include <utility>

#include "runtime/base/code_probe.h"
#include "runtime/membership/assembly_times.h"

namespace mlk::rt {

Assembly::Assembly(AssemblySettings settings) : settings_(std::move(settings)), self_(settings_.self) {}

Assembly::Phase Assembly::phase() const {
  if (failure_) return Phase::failed;
  if (trained_) return Phase::trained;
  if (assembling_) return Phase::assembling;
  return current_ ? Phase::begun : Phase::over;
}

void Assembly::send_status(std::uint32_t rank, Effects& effects, bool waits_for_sum) const {
  StatusMessage status{generation_.number, lineage_, {}, waits_for_sum};
  if (state_) status.step = state_->step;
  effects.send({Role::worker, rank}, encode(status));
}

void Assembly::send_status_to_all(Effects& effects) const {
  for (const auto& [rank, view] : views_) {
    if (view.standing == Standing::live) send_status(rank, effects);
  }
}

void Assembly::set_state(std::optional<StateVersion> state) {
  state_ = state;
  if (state_) state_->lineage = lineage_;
}

bool Assembly::is_member(std::uint32_t rank) const {
  if (rank == self_.rank) return generation_.contains(self_);
  const auto view = views_.find(rank);
  return view != views_.end() && generation_.contains({rank, view->second.incarnation});
}

bool Assembly::is_live(std::uint32_t rank) const {
  if (rank == self_.rank) return true;
  const auto view = views_.find(rank);
  return view != views_.end() && view->second.standing == Standing::live;
}

// Whether the rank is live and should be let in.
bool Assembly::newcomer(std::uint32_t rank, const View& view, SteadyTime now) const {
  return view.standing == Standing::live && view.known && !is_member(rank) && !left_out(now).contains(rank);
}

bool Assembly::is_lowest_live(const std::set<std::uint32_t>& last) const {
  const auto place = [&](std::uint32_t rank) { return std::pair(last.contains(rank), rank); };
  return std::none_of(views_.begin(), views_.end(), [&](const auto& entry) {
    const auto& [rank, view] = entry;
    return place(rank) < place(self_.rank) && view.standing == Standing::live && is_member(rank);
  });
}

// Whether this rank is the lowest live member. The comparison leaves out members whose status says that they
// are in no generation: they wait to be let in.
bool Assembly::is_to_propose() const {
  return std::none_of(views_.begin(), views_.end(), [&](const auto& entry) {
    const auto& [rank, view] = entry;
    const bool outside = view.known && view.status.generation == 0;
    return rank < self_.rank && view.standing == Standing::live && is_member(rank) && !outside;
  });
}

bool Assembly::wants_newcomers(SteadyTime now) const {
  if (!is_lowest_live()) return false;
  return std::ranges::any_of(views_, [&](const auto& e) { return newcomer(e.first, e.second, now); });
}

void Assembly::handle(const Event& event, SteadyTime now, Effects& effects) {
  if (event.peer.role != Role::worker) return;
  View& view = views_[event.peer.rank];
  switch (event.kind) {
    case Event::Kind::up:
      on_up(event, view, now, effects);
      break;
    case Event::Kind::down:
    case Event::Kind::silent:
      on_loss(event, view, now, effects);
      break;
    case Event::Kind::audible:
      view.standing = Standing::live;
      greet(event.peer.rank, effects);
      break;
    case Event::Kind::goodbye:
      if (event.header.clock == static_cast<std::uint64_t>(ExitCode::trained)) left_.insert(event.peer.rank);
      break;
    case Event::Kind::message:
      on_message(event, now, effects);
      break;
    default:
      break;
  }
  tick(now, effects);
}

void Assembly::on_up(const Event& event, View& view, SteadyTime now, Effects& effects) {
  const std::uint32_t rank = event.peer.rank;
  if (view.incarnation != event.incarnation) {
    if (is_member(rank)) current_ = false;
    view = View();
    view.lost = now;
    cuts_.forget([&](std::uint32_t one, std::uint32_t other) { return rank == one || rank == other; });
  }
  // While this rank waits for the start of the run, each rank that comes extends the wait. Otherwise this
  // rank could give up just before the last rank comes back. The wait is not extended if other ranks train,
  // or if promises bind this rank: such a process has to exit, because only its successor has no promises.
  const bool waits_for_start = generation_.number == 0 && !waits_to_be_let_in_ && promises_.empty();
  if (view.incarnation != event.incarnation && waits_for_start) wait_.extend(settings_.patience, now);
  view.incarnation = event.incarnation;
  view.address = event.address;
  view.standing = Standing::live;
  greet(rank, effects);
}

// Called when a rank connects or is audible again: sends the messages that the rank may have missed.
void Assembly::greet(std::uint32_t rank, Effects& effects) const {
  if (trained_) {
    code_probe("allreduce.told-late");
    effects.send({Role::worker, rank}, encode(DoneMessage{generation_.number, result_}));
  }
  send_status(rank, effects);
}

void Assembly::on_loss(const Event& event, View& view, SteadyTime now, Effects& effects) {
  if (event.incarnation != view.incarnation) return;
  const bool was_live = view.standing == Standing::live;
  view.standing = event.kind == Event::Kind::down && event.proven ? Standing::dead : Standing::silent;
  view.lost = now;
  if (event.kind == Event::Kind::down) view.known = false;
  if (view.standing == Standing::silent) note_may_have_gone_on({event.peer.rank, event.incarnation});
  if (!is_member(event.peer.rank)) return;
  current_ = false;
  if (view.standing == Standing::dead) code_probe("allreduce.member-dead");
  if (view.standing == Standing::silent) code_probe("allreduce.member-silent");
  const bool no_news = left_.contains(event.peer.rank) || trained_ || ending_;
  if (was_live && !no_news) effects.log(to_string(event.peer) + " is lost");
}

void Assembly::on_message(const Event& event, SteadyTime now, Effects& effects) {
  switch (event.header.type) {
    case MessageType::status:
      return on_status(event, now, effects);
    case MessageType::propose:
      return on_propose(event, now, effects);
    case MessageType::accept:
      return on_accept(event, now, effects);
    case MessageType::refuse:
      return on_refuse(event, now, effects);
    case MessageType::begin:
      return on_begin(event, effects);
    case MessageType::trouble:
      if (decode_trouble(event.header).generation != generation_.number) return;
      code_probe("allreduce.trouble");
      note_may_have_gone_on({event.peer.rank, event.incarnation});
      current_ = false;
      return;
    case MessageType::done:
      return on_done(event);
    default:
      return;
  }
}

void Assembly::on_status(const Event& event, SteadyTime now, Effects& effects) {
  const auto status = decode_status(event.header, event.payload);
  if (!status) return;
  View& view = views_[event.peer.rank];
  view.known = true;
  view.told = now;
  view.status = *status;
  promised_ = std::max(promised_, status->generation);
  if (status->lineage == lineage_) begun_ = std::max(begun_, status->generation);
  if (status->generation == 0) return;
  if (generation_.number == 0) {
    if (!promises_.forget_before(status->generation, status->lineage)) return;
    lineage_ = status->lineage;
    begun_ = status->generation;
    return;
  }
  if (status->lineage == lineage_) {
    if (status->generation == generation_.number) {
      have_begun_.insert({event.peer.rank, event.incarnation});
      // The peer may wait for a sum that other members have completed. So this rank reports its later step.
      if (status->step && state_ && *status->step < state_->step) send_status(event.peer.rank, effects);
    }
    // The other ranks continued without this process. So this process drops its generation and becomes a
    // newcomer.
    if (status->generation > generation_.number) {
      code_probe("allreduce.passed-over");
      generation_ = Generation();
      beginning_ = Beginning();
      own_.reset();
      promises_.forget_before(status->generation, status->lineage);
      current_ = false;
      send_status_to_all(effects);
    }
    return;
  }
  // A13 of PROTOCOLS.md. The peer is of another lineage. The lineage at the lower step has to end. If both
  // are at the same step, the one with the lower number has to end. So all ranks of one side end, and all
  // ranks of the other side continue. A rank that waits for the state of its generation is compared as if it
  // had this state. Once the generation is over, the ranks with the state may be gone. So a rank without a
  // state then ends in favour of any other lineage.
  auto own = std::pair<std::uint64_t, std::uint64_t>();
  if (state_ || current_) own = {state_ ? state_->step : beginning_.step, lineage_};
  if (status->step && std::pair(*status->step, status->lineage) > own) {
    code_probe("allreduce.started-apart");
    failure_.emplace(ExitCode::peers_lost,
                     "ranks of this run started apart; " + to_string(event.peer) + " is further");
  } else if (state_) {
    send_status(event.peer.rank, effects);  // so that the peer learns the step of this rank
  }
}

void Assembly::on_done(const Event& event) {
  const auto done = decode_done(event.header, event.payload);
  if (!done) return;
  trained_ = true;
  result_ = done->result;
  current_ = false;
}

std::vector<std::string> Assembly::missing() const {
  std::vector<std::string> names;
  for (std::uint32_t rank = 0; rank < settings_.workers; ++rank) {
    if (!is_live(rank)) names.push_back("worker " + std::to_string(rank));
  }
  if (names.empty()) names.push_back("the next generation");
  return names;
}

void Assembly::assemble(SteadyTime now, Effects& effects) {
  assembling_ = true;
  current_ = false;
  enough_since_.reset();
  wait_.restart(now);
  last_tick_ = now;
  first_tick_ = now + settling_time;
  if (!began_) began_ = now;
  send_status_to_all(effects);
}

void Assembly::tick(SteadyTime now, Effects& effects) {
  if (phase() != Phase::assembling) return;
  if (!current_) advance(now, effects);
  last_tick_ = now;
  if (!current_) return;
  assembling_ = false;
  send_status_to_all(effects);
}

void Assembly::advance(SteadyTime now, Effects& effects) {
  answer_proposal(now, effects);
  if (theirs_ && !is_live(theirs_->to.rank)) {
    code_probe("allreduce.proposer-lost");
    theirs_.reset();
  }
  if (theirs_ && now - theirs_since_ >= begin_patience) {
    code_probe("allreduce.begin-expired");
    theirs_.reset();
  }
  if (own_ && now - own_since_ >= propose_patience) {
    code_probe("allreduce.proposal-expired");
    own_.reset();
  }
  if (own_ && std::ranges::any_of(own_->members, [&](const Member& m) { return !is_live(m.rank); })) {
    code_probe("allreduce.invited-lost");
    own_.reset();
  }
  if (!own_ && !theirs_) {
    if (auto proposal = may_propose(now)) propose(std::move(*proposal), now, effects);
  }
  if (current_ || wants_state() || now < wait_.next(settings_.patience)) return;
  if (auto failure = wait_.missing(missing(), settings_.patience, now, effects)) {
    code_probe("allreduce.patience-over");
    failure_ = std::move(failure);
  }
}

// If no event comes, tick() has nothing to do before the returned time.
SteadyTime Assembly::next_tick() const {
  SteadyTime next = wait_.next(settings_.patience);
  const auto at = [&](SteadyTime time) {
    if (time > last_tick_) next = std::min(next, time);
  };
  at(first_tick_);
  at(not_before_);
  if (own_) at(own_since_ + propose_patience);
  if (theirs_) at(theirs_since_ + begin_patience);
  if (theirs_ && !answered_) at(theirs_since_ + reach_patience);
  if (enough_since_) at(*enough_since_ + start_grace);
  for (const auto& [rank, view] : views_) {
    if (view.standing == Standing::dead) at(view.lost + return_patience);
  }
  cuts_.for_each_end(at);
  return next;
}

void Assembly::report_trouble(Effects& effects) const {
  for (const Member& member : generation_.members) {
    if (member.rank != self_.rank)
      effects.send({Role::worker, member.rank}, encode(TroubleMessage{generation_.number}));
  }
}

void Assembly::report_waits_for_sum(Effects& effects) const {
  for (const Member& member : generation_.members) {
    if (member.rank != self_.rank) send_status(member.rank, effects, true);
  }
}

// If a member has reported that it waits, it still waits, or has reached a later step, or has left the
// generation.
bool Assembly::all_wait_for_sum(std::uint64_t step) const {
  return std::ranges::all_of(generation_.members, [&](const Member& member) {
    if (member.rank == self_.rank) return true;
    const auto view = views_.find(member.rank);
    if (view == views_.end() || !view->second.known) return false;
    const StatusMessage& status = view->second.status;
    const bool waits = status.step == step && status.waits_for_sum,
               further = status.step && *status.step > step;
    return status.generation == generation_.number && (waits || further);
  });
}

void Assembly::report_trained(const std::string& result, Effects& effects) {
  trained_ = true;
  result_ = result;
  for (const auto& [rank, view] : views_) {
    if (view.standing == Standing::live)
      effects.send({Role::worker, rank}, encode(DoneMessage{generation_.number, result_}));
  }
}

bool Assembly::all_have_left() const { return left_.size() + 1 >= settings_.workers; }

bool Assembly::somebody_is_there() const {
  return std::any_of(views_.begin(), views_.end(), [this](const auto& entry) {
    return entry.second.standing == Standing::live && !left_.contains(entry.first);
  });
}

std::optional<SteadyTime> Assembly::last_loss() const {
  const bool met_all = views_.size() + 1 >= settings_.workers;
  std::optional<SteadyTime> last = met_all ? std::nullopt : began_;
  for (const auto& [rank, view] : views_) {
    if (view.standing != Standing::live && !left_.contains(rank))
      last = std::max(last, std::optional(view.lost));
  }
  return last;
}

}  // namespace mlk::rt
