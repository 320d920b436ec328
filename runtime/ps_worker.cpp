// The loop of a worker: join, ask for work, compute, push, and from the start again whenever a server was
// lost. Until it is back the worker goes on by itself.
#include "runtime/ps_worker.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/peers.h"
#include "runtime/ps_offline.h"
#include "runtime/ps_protocol.h"
#include "runtime/trainer.h"

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr std::uint64_t no_version = ~std::uint64_t{0};  // asked for, not here yet

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
  void on_weights(const Event& event);
  void seed(std::uint32_t server, std::uint64_t round);
  void pull(std::uint64_t clock, bool all);
  bool receive_weights(std::uint64_t clock);
  bool has_next(std::uint64_t clock) const;
  bool too_old(const WorkMessage& work) const;
  void push(const Work& work);
  void note_progress(const Progress& progress);
  void expect(MessageType type, std::uint64_t clock, std::span<float> into);
  void send(std::uint32_t server, Header header, std::span<const std::byte> payload = {});

  Job& job_;
  Peers& peers_;
  Trainer trainer_;
  RunReports reports_;
  Patience patience_;
  OfflineSteps offline_;
  const bool sync_;
  const std::uint32_t servers_;
  std::vector<Chunk> chunks_;

  std::set<std::uint32_t> up_;
  bool broken_ = false;    // a server was lost or went back since the last join
  bool finished_ = false;  // the run is trained, and its checkpoint is committed
  std::string result_;     // of the reporter, then
  bool must_pull_ = true;  // nothing was received since the last join
  std::uint64_t generation_ = 0;
  std::uint64_t clock_ = 0, position_ = 0;  // of the model's parameters
  std::uint64_t pushes_ = 0;                // async: own count
  std::uint64_t held_slices_ = 0;           // bounded: of every other worker, that the parameters surely hold
  RunView run_;                             // as this worker was last told
  std::optional<Work> work_;
  struct Trained {
    TrainedMessage message;
    std::uint64_t clock = 0;
  };
  std::optional<Trained> trained_;
  ReadyMessage ready_;
  std::set<std::uint32_t> unanswered_;  // chunks of the push under way
  std::vector<float> next_;             // sync: weights of the clock to come
  std::uint64_t awaited_ = 0;           // sync: the clock of the weights that land in next_
  bool pulled_ = false;                 // sync: those, and none of a later clock, are asked for
  std::vector<std::uint64_t> version_;  // per chunk: async: of the parameters; sync: of next_
  LandingsGuard landings_guard_;        // last: the weights land in the members above
};

PsWorker::PsWorker(Job& job, Peers& peers)
    : job_(job),
      peers_(peers),
      trainer_(job),
      reports_(job, trainer_),
      patience_(job),
      offline_(job, trainer_),
      sync_(job.config.consistency.sync),
      servers_(static_cast<std::uint32_t>(job.config.servers.count)),
      landings_guard_(peers.transport().landings()) {
  chunks_ = cut_chunks(trainer_.model().tensors(), servers_);
  version_.assign(chunks_.size(), 0);
  next_.assign(trainer_.model().parameters().begin(), trainer_.model().parameters().end());
}

ExitCode PsWorker::run() {
  while (true) {
    settle();
    await_servers();
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
  peers_.transport().landings().cancel_all();
  std::uint64_t step = version_.front();
  if (sync_) {
    if (step == no_version || step <= clock_ || !has_next(step)) return;
    std::ranges::copy(next_, trainer_.model().parameters().begin());
  } else {
    ++pushes_;  // what still comes of the last push is late
    step = std::min(std::ranges::min(version_), job_.config.steps);
    if (step <= clock_) return;
  }
  const std::uint64_t slices = sync_ ? static_cast<std::uint64_t>(job_.config.workers.count) : 1;
  position_ += (step - clock_) * slices * static_cast<std::uint64_t>(job_.config.data.batch);
  clock_ = step;
}

// While a server is lost the worker goes on offline, if the run had begun, for a while.
void PsWorker::await_servers() {
  const auto until = steady_clock::now() + std::chrono::seconds(job_.config.offline_seconds);
  const std::uint64_t made = offline_.made();
  bool told = false;
  while (!all_servers_up() && !finished_ && !job_.stop.requested()) {
    patience_.missing(missing_servers());
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

void PsWorker::send(std::uint32_t server, Header header, std::span<const std::byte> payload) {
  header.generation = generation_;
  peers_.transport().send({Role::server, server}, header, payload);
}

void PsWorker::join() {
  settle();
  work_.reset();
  trained_.reset();
  unanswered_.clear();
  must_pull_ = true;
  ready_ = ReadyMessage();
  Header header;
  header.type = MessageType::join;
  header.clock = clock_;
  const Bytes payload = encode(JoinMessage{clock_, position_, offline_.made(), run_.restarts,
                                           run_.lost_samples, trainer_.model().tensors()});
  for (std::uint32_t server = 0; server < servers_; ++server) send(server, header, payload);
}

// The last slice was pushed whole, and counts.
void PsWorker::take_leave() {
  Header header;
  header.type = MessageType::ready;
  send(0, header, encode(ready_));
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
  send(0, header, encode(ready_));
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
  trainer_.clock().turn_to(StepClock::Activity::communication);
  push(work);
  if (!pump([this] { return unanswered_.empty(); })) return Turn::rejoin;
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

void PsWorker::push(const Work& work) {
  if (!sync_) ++pushes_;
  const std::uint64_t tag = sync_ ? work.clock : pushes_;
  if (sync_) {
    awaited_ = work.clock + 1;
    pulled_ = false;
    expect(MessageType::weights, work.clock + 1, next_);
  } else {
    expect(MessageType::weights, tag, trainer_.model().parameters());
  }
  for (const Chunk& chunk : chunks_) unanswered_.insert(chunk.id);
  const auto gradients = trainer_.model().gradients();
  for (const Chunk& chunk : chunks_) {
    Header header;
    header.type = MessageType::push;
    header.data_type = DataType::float32;
    header.key = chunk.id;
    header.clock = tag;
    header.offset = sync_ ? std::uint64_t{work.slice} << 32 | work.message.samples : version_[chunk.id];
    send(chunk.server, header, std::as_bytes(gradients.subspan(chunk.offset, chunk.size)));
  }
}

bool PsWorker::has_next(std::uint64_t clock) const {
  return std::all_of(version_.begin(), version_.end(), [clock](std::uint64_t v) { return v == clock; });
}

// Brings the model to the weights of the clock (sync), or the newest (async). False as pump().
bool PsWorker::receive_weights(std::uint64_t clock) {
  if (!sync_) {
    must_pull_ = false;
    pull(++pushes_, true);
    return pump([this] { return unanswered_.empty(); });
  }
  // Servers send new weights by themselves. What is missing is asked for: all after a join; what is a step
  // further, because a worker died between its pushes; and what does not come.
  const auto ahead = [clock](std::uint64_t v) { return v != no_version && v > clock; };
  const bool regress = std::any_of(version_.begin(), version_.end(), ahead);
  if (must_pull_ || regress) pull(clock, must_pull_);
  while (!has_next(clock)) {
    const auto until = steady_clock::now() + std::chrono::milliseconds(500);
    if (!pump([&] { return has_next(clock) || steady_clock::now() >= until; })) return false;
    if (!has_next(clock)) pull(clock, false);
  }
  must_pull_ = regress;
  peers_.transport().landings().cancel_all();
  std::ranges::copy(next_, trainer_.model().parameters().begin());
  return true;
}

// Asks for the weights of a clock, of all chunks or of those that are not at it.
void PsWorker::pull(std::uint64_t clock, bool all) {
  awaited_ = clock;
  pulled_ = true;
  expect(MessageType::weights, clock, sync_ ? std::span<float>(next_) : trainer_.model().parameters());
  for (const Chunk& chunk : chunks_) {
    if (!all && version_[chunk.id] == clock) continue;
    if (sync_) version_[chunk.id] = no_version;
    if (!sync_) unanswered_.insert(chunk.id);
    Header header;
    header.type = MessageType::pull;
    header.key = chunk.id;
    header.clock = clock;
    send(chunk.server, header);
  }
}

void PsWorker::expect(MessageType type, std::uint64_t clock, std::span<float> into) {
  for (const Chunk& chunk : chunks_) {
    peers_.transport().landings().expect({{Role::server, chunk.server}, type, generation_, clock, chunk.id},
                                         std::as_writable_bytes(into.subspan(chunk.offset, chunk.size)));
  }
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
  reports_.at_step(step, position_, step, true);
  Header header;
  header.type = MessageType::reported;
  send(0, header, PayloadWriter().text(job_.reporter.trained_result()).bytes());
  if (!pump([this] { return trained_.has_value(); })) return finished_ ? Turn::over : Turn::rejoin;
  return Turn::go_on;
}

// Gives a server that lost its weights what this worker has of them.
void PsWorker::seed(std::uint32_t server, std::uint64_t round) {
  const auto parameters = trainer_.model().parameters();
  for (const Chunk& chunk : chunks_) {
    if (chunk.server != server) continue;
    Header header;
    header.type = MessageType::seed;
    header.data_type = DataType::float32;
    header.key = chunk.id;
    header.clock = clock_;
    header.offset = round;
    send(server, header, std::as_bytes(parameters.subspan(chunk.offset, chunk.size)));
  }
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
        generation_ = header.generation;
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
      if (all_servers_up())
        seed(header.key, header.clock);  // else the model goes on, and is not what was offered
      break;
    case MessageType::accepted:
      if (header.flags & flag_stale) {
        broken_ = true;
      } else {
        unanswered_.erase(header.key);
      }
      break;
    case MessageType::weights:
      on_weights(event);
      break;
    default:
      break;
  }
}

void PsWorker::on_weights(const Event& event) {
  const Header& header = event.header;
  if (header.key >= chunks_.size()) return;
  const Chunk& chunk = chunks_[header.key];
  if (!event.landed && event.payload.size() != chunk.size * sizeof(float)) return;
  if (!sync_ && header.clock != pushes_)
    return peers_.transport().count_late();  // an answer to something given up
  // A frame with memory of its own may have come before another that has landed since: it must not be written
  // over that.
  if (sync_ && !event.landed && (header.clock < awaited_ || (pulled_ && header.clock != awaited_)))
    return peers_.transport().count_late();
  const std::span<float> target = sync_ ? std::span<float>(next_) : trainer_.model().parameters();
  if (!event.landed) {
    std::memcpy(target.data() + chunk.offset, event.payload.data(), event.payload.size());
  }
  version_[chunk.id] = header.offset;
  if (!sync_) unanswered_.erase(chunk.id);
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
