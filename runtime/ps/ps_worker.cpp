// The loop of a worker: join, ask for work, compute, push, and from the start again whenever a server was
// lost. Until it is back the worker goes on by itself.
#include "runtime/ps/ps_worker.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/membership/peers.h"
#include "runtime/ps/ps_exchange.h"
#include "runtime/ps/ps_offline.h"
#include "runtime/ps/ps_protocol.h"
#include "runtime/train/last_checkpoint.h"
#include "runtime/train/trainer.h"

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr Milliseconds cut_off_after{1000};

class PsWorker {
 public:
  PsWorker(Job& job, Peers& peers);
  ExitCode run();

 private:
  struct Work {
    WorkMessage message;
    std::uint64_t clock = 0;
    std::uint32_t slice = 0;
  };
  enum class Turn { go_on, rejoin, over };

  bool all_servers_up() const;
  std::vector<std::string> missing_servers() const;
  void settle();
  void await_servers();
  void join();
  void take_leave();
  Turn take_turn();
  Turn work_on(const Work& work);
  Turn train_end();
  template <typename Done>
  bool pump(Done done);  // false: a server was lost, or the run is over, or it is time to stop
  void handle(const Event& event);
  void handle_message(const Event& event);
  bool receive_weights(std::uint64_t clock);
  bool too_old(const WorkMessage& work) const;
  void note_progress(const Progress& progress);

  Job& job_;
  Peers& peers_;
  Trainer trainer_;
  RunReports reports_;
  LastCheckpoint last_;
  std::optional<TrainingState> found_;  // of the last step, on disk
  Patience patience_;
  OfflineSteps offline_;
  WeightExchange exchange_;
  const bool sync_;
  const std::uint32_t servers_;

  std::set<std::uint32_t> up_;
  bool broken_ = false;                     // a server was lost or went back since the last join
  bool finished_ = false;                   // the run is trained, and its checkpoint is committed
  std::string result_;                      // of the reporter, then
  bool must_pull_ = true;                   // nothing was received since the last join
  std::uint64_t clock_ = 0, position_ = 0;  // of the model's parameters
  std::uint64_t held_slices_ = 0;           // bounded: of every other worker, that the parameters surely hold
  RunView run_;                             // as this worker was last told
  std::optional<Work> work_;
  struct Trained {
    TrainedMessage message;
    std::uint64_t clock = 0;
  };
  std::optional<Trained> trained_;
  ReadyMessage ready_;
};

PsWorker::PsWorker(Job& job, Peers& peers)
    : job_(job),
      peers_(peers),
      trainer_(job),
      reports_(job, trainer_),
      last_(job),
      patience_(job),
      offline_(job, trainer_),
      exchange_(job, peers, trainer_.model()),
      sync_(job.config.consistency.sync),
      servers_(static_cast<std::uint32_t>(job.config.servers.count)) {}

ExitCode PsWorker::run() {
  while (true) {
    settle();
    await_servers();
    if (found_ && !finished_) return end_with(*found_, job_, trainer_, reports_);
    broken_ = false;
    if (!job_.stop.requested() && !finished_) join();
    Turn turn = Turn::go_on;
    while (turn == Turn::go_on && !job_.stop.requested() && !finished_) turn = take_turn();
    if (finished_) {
      job_.reporter.finish_with(result_);
      return ExitCode::trained;
    }
    if (job_.stop.requested()) {
      if (ready_.done) take_leave();
      job_.reporter.finish(false, "terminated");
      return ExitCode::terminated;
    }
  }
}

bool PsWorker::all_servers_up() const { return up_.size() == servers_; }

std::vector<std::string> PsWorker::missing_servers() const {
  std::vector<std::string> missing;
  for (std::uint32_t rank = 0; rank < servers_; ++rank) {
    if (!up_.contains(rank)) missing.push_back("server " + std::to_string(rank));
  }
  return missing;
}

// Ends what was under way: nothing lands any more, and the model is at the newest step that has come whole.
void PsWorker::settle() {
  const auto step = exchange_.settle(clock_);
  if (!step) return;
  const std::uint64_t slices = sync_ ? static_cast<std::uint64_t>(job_.config.workers.count) : 1;
  position_ += (*step - clock_) * slices * static_cast<std::uint64_t>(job_.config.data.batch);
  clock_ = *step;
}

// While a server is lost the worker goes on offline, if the run had begun, for a while. Servers that have all
// ended come back no more: then the last checkpoint is there, where there are checkpoints.
void PsWorker::await_servers() {
  const auto until = steady_clock::now() + std::chrono::seconds(job_.config.offline_seconds);
  const std::uint64_t made = offline_.made();
  const auto since = steady_clock::now();
  bool told = false, coordinator_told = false;
  while (!all_servers_up() && !finished_ && !job_.stop.requested()) {
    found_ = last_.find(trainer_.tensors());
    if (found_) break;
    patience_.missing(missing_servers());
    // Later than it would have noticed itself if the server were lost to all.
    if (!coordinator_told && up_.contains(0) && steady_clock::now() - since > cut_off_after) {
      coordinator_told = true;
      Header header;
      header.type = MessageType::cut_off;
      exchange_.send(0, header, {});
    }
    const bool go_on = clock_ > 0 && clock_ < job_.config.steps && steady_clock::now() < until;
    if (const auto event = peers_.next(Milliseconds(go_on ? 0 : 100))) {
      handle(*event);
    } else if (go_on) {
      if (!told) {
        job_.log.line("goes on offline for " + std::to_string(job_.config.offline_seconds) +
                      " s at most, from step " + std::to_string(clock_));
      }
      told = true;
      offline_.advance(clock_, position_);
    }
  }
  offline_.abandon_step();
  if (told) {
    job_.log.line("has made " + std::to_string(offline_.made() - made) + " steps offline, to step " +
                  std::to_string(clock_));
  }
}

void PsWorker::join() {
  settle();
  work_.reset();
  trained_.reset();
  must_pull_ = true;
  ready_ = ReadyMessage();
  Header header;
  header.type = MessageType::join;
  header.clock = clock_;
  const Bytes payload = encode(JoinMessage{clock_, position_, offline_.made(), run_.restarts,
                                           run_.lost_samples, trainer_.model().tensors()});
  for (std::uint32_t server = 0; server < servers_; ++server) exchange_.send(server, header, payload);
}

// The last slice was pushed whole, and counts.
void PsWorker::take_leave() {
  Header header;
  header.type = MessageType::ready;
  exchange_.send(0, header, encode(ready_));
}

template <typename Done>
bool PsWorker::pump(Done done) {
  while (!done()) {
    if (broken_ || finished_) return false;
    if (const auto event = peers_.next(Milliseconds(100))) {
      handle(*event);
    } else if (job_.stop.requested()) {
      return false;
    } else if (patience_.seconds() > 10) {
      patience_.missing({"the servers' answer"});
    }
  }
  return !broken_;
}

PsWorker::Turn PsWorker::take_turn() {
  trainer_.clock().turn_to(StepClock::Activity::communication);
  Header header;
  header.type = MessageType::ready;
  exchange_.send(0, header, encode(ready_));
  ready_ = ReadyMessage();
  if (!pump([this] { return work_ || trained_; })) return finished_ ? Turn::over : Turn::rejoin;
  patience_.satisfied();
  if (trained_) return train_end();
  const Work work = *work_;
  work_.reset();
  return work_on(work);
}

PsWorker::Turn PsWorker::work_on(const Work& work) {
  const bool joined = must_pull_;
  if (must_pull_ || (sync_ ? clock_ != work.clock : too_old(work.message))) {
    if (!receive_weights(work.clock)) return Turn::rejoin;
    held_slices_ = work.message.others_slices;
  }
  if (joined) trainer_.clock().take();  // to wait for the others to join belongs to no step
  offline_.forget();
  clock_ = work.clock;
  position_ = work.message.run_position;
  job_.reporter.checkpoint(work.message.checkpoint);
  note_progress(work.message.progress);
  if (work.message.reports) {
    trainer_.clock().turn_to(StepClock::Activity::other);
    reports_.at_step(clock_, position_, work.message.restored_step, false);
  }
  const double loss = trainer_.compute(work.message.position, work.message.samples);
  patience_.satisfied();  // its own work is no waiting
  trainer_.clock().turn_to(StepClock::Activity::communication);
  exchange_.push(work.clock, work.slice, work.message.samples);
  if (!pump([this] { return exchange_.answered(); })) return Turn::rejoin;
  const StepTimes times = trainer_.clock().take();
  job_.reporter.telemetry().step(clock_ + 1, work.message.samples, times);
  const std::uint64_t own = work.message.own_slices;
  ready_ = {true, work.clock, work.slice, loss, times.own(), own - std::min(own, held_slices_)};
  held_slices_ = work.message.others_slices;  // or more: the servers have answered since it was said
  return Turn::go_on;
}

bool PsWorker::too_old(const WorkMessage& work) const {
  const auto bound = job_.config.consistency.staleness;
  return bound && work.own_slices > held_slices_ + static_cast<std::uint64_t>(*bound);
}

void PsWorker::note_progress(const Progress& progress) {
  reports_.add_loss(progress.loss_sum, progress.loss_count);
  run_ = progress.run;
  job_.reporter.telemetry().run(run_);
  job_.reporter.telemetry().staleness(progress.staleness);
}

// Brings the model to the weights of the clock (sync), or the newest (async). False as pump().
bool PsWorker::receive_weights(std::uint64_t clock) {
  if (!sync_) {
    must_pull_ = false;
    exchange_.pull_newest();
    return pump([this] { return exchange_.answered(); });
  }
  // Servers send new weights by themselves. What is missing is asked for: all after a join; what is a step
  // further, because a worker died between its pushes; and what does not come.
  const bool regress = exchange_.is_beyond(clock);
  if (must_pull_ || regress) exchange_.pull(clock, must_pull_);
  while (!exchange_.has_next(clock)) {
    const auto until = steady_clock::now() + std::chrono::milliseconds(500);
    if (!pump([&] { return exchange_.has_next(clock) || steady_clock::now() >= until; })) return false;
    if (!exchange_.has_next(clock)) exchange_.pull(clock, false);
  }
  must_pull_ = regress;
  exchange_.take_next();
  return true;
}

// The run is trained: the lowest live rank evaluates the final weights and reports.
PsWorker::Turn PsWorker::train_end() {
  trainer_.clock().turn_to(StepClock::Activity::other);
  const auto [message, step] = *trained_;
  trained_.reset();
  job_.reporter.checkpoint(message.checkpoint);
  note_progress(message.progress);
  must_pull_ = true;
  if (!receive_weights(step)) return finished_ ? Turn::over : Turn::rejoin;
  clock_ = step;
  position_ = message.run_position;
  if (!reports_.at_step(step, position_, step, true)) return Turn::rejoin;
  patience_.satisfied();
  Header header;
  header.type = MessageType::reported;
  exchange_.send(0, header, PayloadWriter().text(job_.reporter.trained_result()).bytes());
  if (!pump([this] { return trained_.has_value(); })) return finished_ ? Turn::over : Turn::rejoin;
  return Turn::go_on;
}

void PsWorker::handle(const Event& event) {
  if (event.peer.role != Role::server) return;
  switch (event.kind) {
    case Event::Kind::up:
      up_.insert(event.peer.rank);
      break;
    case Event::Kind::down:
      if (up_.erase(event.peer.rank) > 0 && !finished_) {
        broken_ = true;
        job_.log.line(to_string(event.peer) + " is lost, trying again");
      }
      break;
    case Event::Kind::message:
      handle_message(event);
      break;
    default:
      break;
  }
}

void PsWorker::handle_message(const Event& event) {
  const Header& header = event.header;
  switch (header.type) {
    case MessageType::work:
      if (const auto work = decode_work(event.payload)) {
        exchange_.in_generation(header.generation);
        work_ = Work{*work, header.clock, header.key};
      }
      break;
    case MessageType::wait:
      if (header.flags & flag_running) patience_.satisfied();
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
      // Else the model goes on, and is not what was offered.
      if (all_servers_up()) exchange_.seed(header.key, clock_, header.clock);
      break;
    case MessageType::accepted:
      if (header.flags & flag_stale) {
        broken_ = true;
      } else {
        exchange_.accepted(header.key);
      }
      break;
    case MessageType::weights:
      exchange_.on_weights(event);
      break;
    default:
      break;
  }
}

}  // namespace

ExitCode run_ps_worker(Job& job) {
  return run_among_peers(job, [&job](Peers& peers) {
    for (int rank = 0; rank < job.config.servers.count; ++rank)
      peers.dial(Role::server, static_cast<std::uint32_t>(rank));
    return PsWorker(job, peers).run();
  });
}

}  // namespace mlk::rt
