#include "runtime/collectives/rank_machine.h"

#include <algorithm>
#include <utility>

#include "runtime/base/code_probe.h"
#include "runtime/membership/peers.h"

namespace mlk::rt {
namespace {

// How long a rank waits for the next part of a state. For the first part, it waits this time multiplied by
// the number of ranks that lag.
constexpr std::chrono::seconds transfer_patience{60};
constexpr std::size_t most_early_parts = 1024;
constexpr Milliseconds save_interval{5};            // from one decision SaveLast to the next
constexpr std::chrono::seconds result_patience{5};  // for the result, once the last checkpoint exists

}  // namespace

RankMachine::RankMachine(RankSettings settings)
    : settings_(std::move(settings)), assembly_(settings_.assembly) {}

template <typename Call>
void RankMachine::assembly_call(RankTurn& turn, Call call) {
  Effects effects;
  call(effects);
  turn.append(std::move(effects));
}

void RankMachine::start(RankTurn& turn) { assemble(turn); }

void RankMachine::handle(Event&& event, RankTurn& turn) {
  if (stopping_) assembly_.ends();
  if (state_ == State::found) {
    hear_result(event, turn);
  } else if (event.kind == Event::Kind::message && event.header.type == MessageType::feed) {
    receive(std::move(event), turn);
  } else {
    if (event.kind == Event::Kind::down) forget_early(event.peer.rank, turn);
    assembly_call(turn, [&](Effects& effects) { assembly_.handle(event, turn.now, effects); });
  }
  reconcile(turn);
}

void RankMachine::forget_early(std::uint32_t rank, RankTurn& turn) {
  std::erase_if(early_parts_, [rank](const Event& part) { return part.peer.rank == rank; });
  turn.decide(ForgetFrames{rank});
}

void RankMachine::tick(RankTurn& turn) {
  if (state_ == State::assembling)
    assembly_call(turn, [&](Effects& effects) { assembly_.tick(turn.now, effects); });
  if (state_ == State::between) return next_step(turn);
  reconcile(turn);
}

SteadyTime RankMachine::next_tick() const {
  switch (state_) {
    case State::assembling:
      return assembly_.next_tick();
    case State::receiving:
      return receive_by_ + Milliseconds(1);
    case State::between:
      return {};
    case State::saving:
      return reports() ? saved_at_ + save_interval : SteadyTime::max();
    case State::staying:
      return stays_until() + Milliseconds(1);
    case State::found:
      return result_by_;
    default:
      return SteadyTime::max();
  }
}

// Makes the next transition if the current state waits for nothing more.
void RankMachine::reconcile(RankTurn& turn) {
  // A failure is ignored once the run is trained.
  if (assembly_.phase() == Assembly::Phase::failed && state_ != State::staying && state_ != State::found)
    return end(assembly_.failure(), turn);
  switch (state_) {
    case State::assembling:
      if (assembly_.phase() == Assembly::Phase::trained) {
        code_probe("allreduce.ended-elsewhere");
        return end(EndTrained{assembly_.result()}, turn);
      }
      if (stopping_) return terminate(turn);
      if (assembly_.wants_state()) {
        state_ = State::making;
        return turn.decide(MakeState());
      }
      return goes_on() ? begin(turn) : void();
    case State::between:  // so that this rank leaves the old generation before the next one begins
      return goes_on() ? void() : next_step(turn);
    case State::receiving:
      return go_on_receiving(turn);
    case State::saving:
      if (stopping_) return terminate(turn);
      return goes_on() ? save_last(turn) : give_up(turn);
    case State::staying:
      if (assembly_.all_have_left()) {
        code_probe("allreduce.all-have-left");
      } else if (turn.now > stays_until()) {
        code_probe("allreduce.stayed-long-enough");
      } else if (!stopping_) {
        return;
      }
      return end(EndReported(), turn);
    case State::found:
      return stopping_ || turn.now >= result_by_ ? end(EndWithFound(), turn) : void();
    default:
      return;
  }
}

void RankMachine::assemble(RankTurn& turn) {
  state_ = State::assembling;
  assembly_call(turn, [&](Effects& effects) { assembly_.assemble(turn.now, effects); });
  reconcile(turn);
}

void RankMachine::found_last(RankTurn& turn) {
  code_probe("allreduce.found-last");
  state_ = State::found;
  result_by_ = assembly_.generation().number > 0 ? turn.now + result_patience : turn.now;
  turn.decide(RunIsTrained());
  reconcile(turn);
}

// The run is over, so this rank waits only for the result of the run.
void RankMachine::hear_result(const Event& event, RankTurn& turn) {
  if (event.kind != Event::Kind::message || event.header.type != MessageType::done) return;
  const auto done = decode_done(event.header, event.payload);
  if (!done) return;
  code_probe("allreduce.found-and-told");
  end(EndTrained{done->result}, turn);
}

// ---- the state

void RankMachine::state_changed() {
  assembly_.set_state(has_state_ ? std::optional(StateVersion{point_.step, point_.summed_in}) : std::nullopt);
}

void RankMachine::state_made(const StatePoint& point, std::uint64_t restarts, RankTurn& turn) {
  code_probe("allreduce.state-made");
  point_ = point;
  has_state_ = true;
  state_changed();
  state_ = State::assembling;
  assembly_call(turn, [&](Effects& effects) {
    assembly_.state_made({point.step, point.summed_in}, restarts, turn.now, effects);
  });
  reconcile(turn);
}

// A generation has begun. Its source sends the state to the ranks that lag. These ranks receive the state
// before they make steps.
void RankMachine::begin(RankTurn& turn) {
  const std::uint32_t self = settings_.assembly.self.rank;
  lagging_ = assembly_.beginning().lagging;
  if (assembly_.beginning().source == self) {
    for (const std::uint32_t rank : lagging_) turn.decide(SendState{rank});
  }
  if (!lagging_.contains(self)) return begin_steps(turn);
  state_ = State::receiving;
  floats_to_come_ = settings_.parameters + settings_.optimizer_floats;
  receive_by_ = turn.now + transfer_patience * lagging_.size();
  for (Event& part : std::exchange(early_parts_, {})) receive(std::move(part), turn);
  reconcile(turn);
}

void RankMachine::receive(Event&& event, RankTurn& turn) {
  const std::uint64_t generation = assembly_.generation().number;
  if (event.header.generation > generation) {
    std::erase_if(early_parts_,
                  [&](const Event& e) { return e.header.generation < event.header.generation; });
    code_probe("allreduce.state-before-begin");
    if (early_parts_.size() < most_early_parts) early_parts_.push_back(std::move(event));
    return;
  }
  if (event.header.generation != generation || state_ != State::receiving) {
    code_probe("allreduce.state-too-late");
    return turn.decide(CountLate());
  }
  const auto part = decode_state(event.header, event.payload);
  if (!part || part->state_since > part->step) return;
  const std::uint64_t count = part->floats.size() / sizeof(float), offset = part->offset,
                      size = settings_.parameters, all = size + settings_.optimizer_floats;
  if (offset > all || count > all - offset || (offset < size && offset + count > size)) return;
  // The first part overwrites this rank's own state. If the source is lost before the first part arrives,
  // this rank still offers its own state to the other ranks.
  if (std::exchange(has_state_, false)) state_changed();
  receive_by_ = turn.now + transfer_patience;
  floats_to_come_ -= std::min(floats_to_come_, count);
  const StatePoint point{part->step, part->position, part->state_since, part->summed_in};
  turn.decide(StoreState{std::move(event)});
  if (floats_to_come_ > 0) return;
  point_ = point;
  has_state_ = true;
  state_changed();
}

void RankMachine::go_on_receiving(RankTurn& turn) {
  if (floats_to_come_ == 0) {
    code_probe("allreduce.state-received");
    return begin_steps(turn);
  }
  const bool expired = turn.now > receive_by_;
  if (goes_on() && !expired && !stopping_) return;
  if (!has_state_) code_probe("allreduce.state-torn");
  if (expired) code_probe("allreduce.state-expired");
  give_up(turn);
}

// ---- steps

void RankMachine::begin_steps(RankTurn& turn) {
  state_ = State::between;
  turn.decide(BeginSteps());
}

// Called when no event of the previous step is left, or when the generation is over. After the last step of
// the run, the rank that reports saves the trained state even if the generation is over. The other ranks then
// take part in the next generation, which may need their state.
void RankMachine::next_step(RankTurn& turn) {
  if (stopping_) return terminate(turn);
  if (point_.step >= settings_.steps && (goes_on() || reports())) {
    state_ = State::saving;
    return save_last(turn);
  }
  if (!goes_on()) return give_up(turn);
  if (assembly_.wants_newcomers(turn.now)) {
    code_probe("allreduce.newcomers");
    return assemble(turn);
  }
  const Generation& generation = assembly_.generation();
  const std::uint64_t members = generation.members.size(),
                      index = *generation.index_of(settings_.assembly.self.rank);
  state_ = State::stepping;
  turn.decide(TakeStep{point_.position + settings_.step_samples * index / members,
                       point_.position + settings_.step_samples * (index + 1) / members});
}

void RankMachine::step_taken(RankTurn& turn) {
  ++point_.step;
  point_.position += settings_.step_samples;
  point_.summed_in = assembly_.generation().number;
  state_changed();
  lagging_.clear();
  state_ = State::between;
  code_probe("allreduce.step-taken");
  if (reports()) turn.decide(AfterStep());
}

bool RankMachine::waits_for_sum(RankTurn& turn) {
  assembly_call(turn, [&](Effects& effects) { assembly_.report_waits_for_sum(effects); });
  const bool all = assembly_.all_wait_for_sum(point_.step);
  if (all) code_probe("allreduce.sum-hangs");
  return all;
}

void RankMachine::step_given_up(RankTurn& turn) {
  code_probe("allreduce.step-given-up");
  give_up(turn);
}

// The trouble message ends the generation for members that still wait for this rank in the sum of a step. All
// members also learn from this message that this rank may continue with other ranks.
void RankMachine::give_up(RankTurn& turn) {
  assembly_call(turn, [&](Effects& effects) { assembly_.report_trouble(effects); });
  assemble(turn);
}

// ---- the end

void RankMachine::save_last(RankTurn& turn) {
  if (!reports()) return;
  saved_at_ = turn.now;
  turn.decide(SaveLast());
}

void RankMachine::last_saved(RankTurn& turn) {
  state_ = State::reporting;
  turn.decide(ReportTrained());
}

// The rank that reports ends the run for all ranks. Then it stays for a limited time, until all other ranks
// have ended: a missing rank may be starting, and a rank that has the done message may be lost before its
// exit, and come back.
void RankMachine::reported(bool done, const std::string& result, RankTurn& turn) {
  if (!done) return terminate(turn);
  code_probe("allreduce.trained");
  state_ = State::staying;
  trained_at_ = turn.now;
  turn.decide(RunIsTrained());
  assembly_call(turn, [&](Effects& effects) { assembly_.report_trained(result, effects); });
  reconcile(turn);
}

SteadyTime RankMachine::stays_until() const {
  return late_deadline(trained_at_, assembly_.last_loss(), assembly_.somebody_is_there(), settings_.late);
}

void RankMachine::terminate(RankTurn& turn) {
  code_probe("allreduce.terminated");
  // The rank that would report may still lack the state, so the lowest rank with a state saves.
  if (has_state_ && assembly_.is_lowest_live(lagging_)) {
    code_probe("allreduce.terminated-saves");
    turn.decide(SaveNow());
  }
  end(EndTerminated(), turn);
}

void RankMachine::end(RankTurn::Decision how, RankTurn& turn) {
  state_ = State::ended;
  turn.decide(std::move(how));
}

const char* RankMachine::doing() const {
  static constexpr const char* names[] = {"assembles",
                                          "makes a state",
                                          "receives the state",
                                          "is between two steps",
                                          "takes a step",
                                          "saves the last step",
                                          "reports",
                                          "stays",
                                          "has found the last checkpoint",
                                          "has ended"};
  return names[static_cast<int>(state_)];
}

}  // namespace mlk::rt
