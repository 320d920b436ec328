// How a worker handles a slice: it gets the weights, computes, pushes the gradients and reports.
#include <algorithm>
#include <utility>

#include "runtime/base/code_probe.h"
#include "runtime/ps/machines/timers.h"
#include "runtime/ps/machines/worker_machine.h"

namespace mlk::rt {

void WorkerMachine::work_on(WorkerTurn& turn) {
  at_work_ = std::exchange(work_, {});
  at_end_.reset();
  joined_ = must_pull_;
  if (must_pull_ || (sync_ ? clock_ != at_work_->clock : too_old(at_work_->message)))
    return fetch(at_work_->clock, turn);
  compute(turn);
}

bool WorkerMachine::too_old(const WorkMessage& work) const {
  const auto bound = config_.consistency.staleness;
  return bound && work.own_slices > held_slices_ + static_cast<std::uint64_t>(*bound);
}

void WorkerMachine::compute(WorkerTurn& turn) {
  const WorkMessage& work = at_work_->message;
  if (joined_) turn.decide(ForgetTimes{});  // the time of waiting for others to join belongs to no step
  offline_made_ = 0;
  turn.decide(ForgetOfflineSteps{});
  clock_ = at_work_->clock;
  position_ = work.run_position;
  note({work.checkpoint, work.unsaved}, work.progress, turn);
  if (work.reports) {
    turn.decide(TurnClock{StepClock::Activity::other});
    turn.decide(ReportStep{clock_, position_, work.restored_step});
  }
  state_ = State::computing;
  turn.decide(ComputeSlice{work.position, work.samples});
}

void WorkerMachine::computed(double loss, WorkerTurn& turn) {
  loss_ = loss;
  patience_.restart(turn.now);  // the time of computing does not count as waiting
  turn.decide(TurnClock{StepClock::Activity::communication});
  book_.push(at_work_->clock, at_work_->slice, at_work_->message.samples, turn);
  state_ = State::pushing;
  advance(false, turn);
}

void WorkerMachine::step_counted(double own_seconds, WorkerTurn& turn) {
  const Work& work = *at_work_;
  const std::uint64_t own = work.message.own_slices;
  ready_ = {true, work.clock, work.slice, loss_, own_seconds, own - std::min(own, held_slices_)};
  held_slices_ = work.message.others_slices;  // a lower bound: the weights may be newer
  next_slice(turn);
}

void WorkerMachine::note(const NoteCheckpoint& checkpoint, const Progress& progress, WorkerTurn& turn) {
  run_ = progress.run;
  turn.decide(checkpoint);
  turn.decide(NoteProgress{progress});
}

// Brings the model to the weights of the clock (sync), or to the newest weights (async).
void WorkerMachine::fetch(std::uint64_t clock, WorkerTurn& turn) {
  state_ = State::fetching;
  fetched_clock_ = clock;
  if (!sync_) {
    must_pull_ = false;
    book_.pull_newest(turn);
    return go_on_fetching(false, turn);
  }
  // Servers send new weights without a request. After a join, the worker asks for all chunks. It also asks
  // for chunks that do not arrive, and for chunks that are one step ahead. A chunk is one step ahead if a
  // worker has died between its pushes.
  regress_ = book_.is_beyond(clock);
  if (regress_) code_probe("ps.weights-beyond");
  if (must_pull_ || regress_) book_.pull(clock, must_pull_, turn);
  if (book_.has_next(clock)) return have_weights(turn);
  pull_again_ = turn.now + ps_timers::pull_again_after;
  go_on_fetching(false, turn);
}

void WorkerMachine::go_on_fetching(bool idle, WorkerTurn& turn) {
  const bool have = sync_ ? book_.has_next(fetched_clock_) : book_.answered();
  const bool overdue = sync_ && turn.now >= pull_again_;
  if (!goes_on(have || overdue, idle, turn)) return;
  if (have) return have_weights(turn);
  code_probe("ps.pulls-again");
  book_.pull(fetched_clock_, false, turn);
  pull_again_ = turn.now + ps_timers::pull_again_after;
}

void WorkerMachine::have_weights(WorkerTurn& turn) {
  if (sync_) {
    must_pull_ = regress_;
    turn.decide(UseNextWeights{});
  }
  if (!at_end_) {
    held_slices_ = at_work_->message.others_slices;
    return compute(turn);
  }
  clock_ = at_end_->clock;
  position_ = at_end_->message.run_position;
  state_ = State::evaluating;
  turn.decide(Evaluate{clock_, position_});
}

// The run is trained: the lowest live rank evaluates the final weights and reports.
void WorkerMachine::train_end(WorkerTurn& turn) {
  at_end_ = std::exchange(trained_, {});
  turn.decide(TurnClock{StepClock::Activity::other});
  note({at_end_->message.checkpoint, {}}, at_end_->message.progress, turn);
  must_pull_ = true;
  fetch(at_end_->clock, turn);
}

void WorkerMachine::evaluated(bool done, const std::string& result, WorkerTurn& turn) {
  if (!done) return leave_slice(turn);
  patience_.restart(turn.now);
  book_.send(0, {.type = MessageType::reported}, turn, PayloadWriter().text(result).bytes());
  state_ = State::reported;
  advance(false, turn);
}

}  // namespace mlk::rt
