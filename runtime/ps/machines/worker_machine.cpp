// The transitions of a worker from one state to the next.
#include "runtime/ps/machines/worker_machine.h"

#include <algorithm>
#include <utility>

#include "runtime/base/code_probe.h"
#include "runtime/ps/machines/timers.h"

namespace mlk::rt {
namespace {

std::uint64_t slices_of_step(const Config& config) {
  return config.consistency.sync ? static_cast<std::uint64_t>(config.workers.count) : 1;
}

}  // namespace

WorkerMachine::WorkerMachine(const Config& config, std::vector<TensorInfo> tensors, SteadyTime now,
                             const std::optional<DataSummary>& data)
    : config_(config),
      tensors_(std::move(tensors)),
      data_(data),
      sync_(config.consistency.sync),
      servers_(static_cast<std::uint32_t>(config.servers.count)),
      book_(cut_chunks(tensors_, servers_), sync_, config.steps) {
  patience_.restart(now);
}

void WorkerMachine::start(WorkerTurn& turn) { await_servers(turn); }

Milliseconds WorkerMachine::wait(SteadyTime now) const {
  return state_ == State::awaiting_servers && goes_on_offline(now) ? Milliseconds(0)
                                                                   : ps_timers::worker_look_interval;
}

bool WorkerMachine::checks_for_last(SteadyTime now) const {
  return state_ == State::awaiting_servers || state_ == State::looking ||
         (state_ == State::asking && patience_.seconds(now) > ps_timers::answer_patience_seconds);
}

void WorkerMachine::handle(const Event& event, WorkerTurn& turn) {
  if (event.peer.role == Role::server) {
    if (event.kind == Event::Kind::up) up_.insert(event.peer.rank);
    if (event.kind == Event::Kind::down && up_.erase(event.peer.rank) > 0 && !finished_) {
      broken_ = true;
      turn.log(to_string(event.peer) + " is lost, trying again");
    }
    if (event.kind == Event::Kind::message) on_message(event, turn);
  }
  advance(false, turn);
}

void WorkerMachine::on_message(const Event& event, WorkerTurn& turn) {
  const Header& header = event.header;
  switch (header.type) {
    case MessageType::work:
      if (const auto work = decode_work(event.payload)) {
        book_.in_generation(header.generation);
        work_ = Work{*work, header.clock, header.key};
      }
      break;
    case MessageType::wait:
      told_to_wait_ = turn.now;
      if (header.flags & flag_running) patience_.restart(turn.now);
      if (header.flags & flag_rejoin) broken_ = true;
      break;
    case MessageType::trained:
      if (const auto trained = decode_trained(event.payload)) trained_ = Trained{*trained, header.clock};
      break;
    case MessageType::finish:
      finished_ = true;
      if (result_.empty()) result_ = PayloadReader(event.payload).text();
      break;
    case MessageType::seed_wanted:
      // While a server is lost, this worker trains its model offline. So it no longer has the weights that it
      // offered.
      if (!all_servers_up()) code_probe("ps.seeds-refused");
      if (all_servers_up()) book_.seed(header.key, clock_, header.clock, turn);
      break;
    case MessageType::accepted:
      if (header.flags & flag_behind) {
        broken_ = true;
      } else {
        book_.accepted(header.key);
      }
      break;
    case MessageType::weights:
      return book_.on_weights(event, turn);
    default:
      break;
  }
}

void WorkerMachine::tick(WorkerTurn& turn) {
  if (state_ == State::awaiting_servers && !stopping_ && goes_on_offline(turn.now)) {
    if (!told_offline_) {
      code_probe("ps.goes-offline");
      turn.log("goes on offline for " + std::to_string(config_.offline_seconds) + " s at most, from step " +
               std::to_string(clock_));
    }
    told_offline_ = true;
    return turn.decide(OfflineSlice{clock_, position_});
  }
  advance(true, turn);
}

void WorkerMachine::advance(bool idle, WorkerTurn& turn) {
  switch (state_) {
    case State::awaiting_servers:
      return go_on_awaiting(turn);
    case State::asking:
      if (!goes_on(work_ || trained_, idle, turn)) return;
      patience_.restart(turn.now);
      return trained_ ? train_end(turn) : work_on(turn);
    case State::fetching:
      return go_on_fetching(idle, turn);
    case State::pushing:
      if (!goes_on(book_.answered(), idle, turn)) return;
      state_ = State::counting;
      return turn.decide(CountStep{clock_ + 1, at_work_->message.samples});
    case State::reported:
      if (goes_on(trained_.has_value(), idle, turn)) next_slice(turn);
      return;
    case State::looking:
      return leave_trained(turn);
    case State::computing:
    case State::counting:
    case State::evaluating:  // the worker waits for the answer to a decision
      return;
  }
}

// Returns true if the servers' answer is complete (`done`) and the worker can continue with it. Leaves the
// slice and returns false if a server was lost, the run is over or this process has to stop.
bool WorkerMachine::goes_on(bool done, bool idle, WorkerTurn& turn) {
  if (done && !broken_) return true;
  if (broken_ || finished_ || (idle && stopping_)) {
    leave_slice(turn);
  } else if (idle && patience_.seconds(turn.now) > ps_timers::answer_patience_seconds) {
    code_probe("ps.answer-overdue");
    miss({"the servers' answer"}, turn);
  }
  return false;
}

// While server 0 waits for other processes, the patience of server 0 applies, and not that of this worker.
// Otherwise workers that began to wait at different times would end one after the other, and would never be
// connected together.
void WorkerMachine::miss(const std::vector<std::string>& who, WorkerTurn& turn) {
  const auto told = static_cast<int>(std::max(0.0, patience_.seconds(told_to_wait_)));
  const auto given_up =
      patience_.missing(who, std::chrono::seconds(config_.patience_seconds + told), turn.now, turn);
  if (given_up) code_probe("ps.worker-gives-up");
  if (given_up) turn.decide(*given_up);
}

std::vector<std::string> WorkerMachine::missing_servers() const {
  std::vector<std::string> missing;
  for (std::uint32_t rank = 0; rank < servers_; ++rank) {
    if (!up_.contains(rank)) missing.push_back("server " + std::to_string(rank));
  }
  return missing;
}

// Ends the exchange with the servers: takes posted buffers back, and moves the model to the newest step
// whose weights have all arrived.
void WorkerMachine::end_exchange(WorkerTurn& turn) {
  const auto step = book_.abandon_pending(clock_, turn);
  if (!step) return;
  code_probe("ps.weights-came-before-loss");
  position_ += (*step - clock_) * slices_of_step(config_) * static_cast<std::uint64_t>(config_.data.batch);
  clock_ = *step;
}

// While a server is lost, the worker continues offline for a while, if the run had begun. If all servers have
// ended with 0, they do not come back. Then the worker ends with the last checkpoint, if the run makes
// checkpoints.
void WorkerMachine::await_servers(WorkerTurn& turn) {
  code_probe("ps.awaits-servers");
  state_ = State::awaiting_servers;
  end_exchange(turn);
  awaiting_since_ = turn.now;
  told_offline_ = told_coordinator_ = false;
  offline_before_ = offline_made_;
  go_on_awaiting(turn);
}

bool WorkerMachine::goes_on_offline(SteadyTime now) const {
  return clock_ > 0 && clock_ < config_.steps &&
         now < awaiting_since_ + std::chrono::seconds(config_.offline_seconds);
}

void WorkerMachine::go_on_awaiting(WorkerTurn& turn) {
  if (all_servers_up() || finished_ || stopping_) return have_servers(turn);
  miss(missing_servers(), turn);
  // The worker waits before it sends `cut_off`: if all processes have lost the server, server 0 notices the
  // loss itself.
  if (!told_coordinator_ && up_.contains(0) && turn.now - awaiting_since_ > ps_timers::cut_off_after) {
    code_probe("ps.tells-cut-off");
    told_coordinator_ = true;
    book_.send(0, {.type = MessageType::cut_off}, turn);
  }
}

void WorkerMachine::offline_advanced(bool made, std::uint64_t step, std::uint64_t position,
                                     WorkerTurn& turn) {
  if (made) ++offline_made_;
  clock_ = step;
  position_ = position;
  go_on_awaiting(turn);
}

void WorkerMachine::found_last(WorkerTurn& turn) {
  code_probe("ps.last-found");
  turn.decide(AbandonOfflineStep{});
  turn.decide(EndWithFound{});
}

void WorkerMachine::have_servers(WorkerTurn& turn) {
  turn.decide(AbandonOfflineStep{});
  if (told_offline_) {
    turn.log("has made " + std::to_string(offline_made_ - offline_before_) + " steps offline, to step " +
             std::to_string(clock_));
  }
  broken_ = false;
  if (!stopping_ && !finished_) join(turn);
  next_slice(turn);
}

void WorkerMachine::join(WorkerTurn& turn) {
  code_probe("ps.joins");
  end_exchange(turn);
  work_.reset();
  trained_.reset();
  must_pull_ = true;
  ready_ = ReadyMessage();
  const Header header{.type = MessageType::join, .clock = clock_};
  const Bytes payload = encode(
      JoinMessage{clock_, position_, offline_made_, run_.restarts, run_.lost_samples, tensors_, data_});
  for (std::uint32_t server = 0; server < servers_; ++server) book_.send(server, header, turn, payload);
}

void WorkerMachine::send_ready(WorkerTurn& turn) {
  book_.send(0, {.type = MessageType::ready}, turn, encode(ready_));
}

void WorkerMachine::next_slice(WorkerTurn& turn) {
  if (stopping_ || finished_) return leave_slice(turn);
  turn.decide(TurnClock{StepClock::Activity::communication});
  send_ready(turn);
  ready_ = ReadyMessage();
  state_ = State::asking;
  advance(false, turn);
}

void WorkerMachine::leave_slice(WorkerTurn& turn) {
  if (finished_) return leave_trained(turn);
  if (!stopping_) return await_servers(turn);
  code_probe("ps.worker-terminated");
  if (ready_.done) send_ready(turn);  // all gradients of the last slice are pushed, so it counts
  turn.decide(EndTerminated{});
}

// A server that has found the last checkpoint sends a finish message without a result. So this worker makes
// the report, if it also finds the checkpoint.
void WorkerMachine::leave_trained(WorkerTurn& turn) {
  if (result_.empty() && state_ != State::looking) {
    code_probe("ps.told-of-no-report");
    end_exchange(turn);
    state_ = State::looking;
    looks_until_ = turn.now + ps_timers::last_look;
  }
  if (result_.empty() && turn.now < looks_until_ && !stopping_) return;
  if (result_.empty() && !stopping_) code_probe("ps.last-look-over");
  code_probe("ps.worker-ends");
  turn.decide(EndTrained{result_});
}

}  // namespace mlk::rt
