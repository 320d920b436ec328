// What server 0 does when workers and servers join or are lost, and the phases in which the servers have
// weights: running (with pauses for saving) and ending. The earlier phases are in coordinator_gathering.cpp.
#include "runtime/ps/machines/coordinator.h"

#include <algorithm>
#include <utility>

#include "runtime/base/code_probe.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/model/optimizer.h"
#include "runtime/ps/machines/timers.h"

namespace mlk::rt {

Coordinator::Coordinator(const Settings& settings, SteadyTime now)
    : settings_(settings),
      leases_(settings.config),
      checkpoints_(settings.saves, std::chrono::seconds(settings.config.patience_seconds),
                   settings.name_aside),
      seeding_(settings.incarnation, Optimizer(settings.config.optimizer, settings.config.steps).slots()) {
  patience_.restart(now);
}

void Coordinator::model_is(std::span<const Chunk> chunks) {
  seeding_.model_is(chunks);
  for (const Chunk& chunk : chunks) holders_.insert(chunk.server);
}

void Coordinator::send(Turn& turn, PeerId to, MessageType type, std::uint64_t clock, std::uint32_t key,
                       std::uint8_t flags, Bytes payload) const {
  turn.send(to, {.type = type, .flags = flags, .key = key, .generation = generation_.number, .clock = clock},
            std::move(payload));
}

void Coordinator::worker_up(PeerId worker) { connected_.insert(worker.rank); }

void Coordinator::peer_down(PeerId peer, Turn& turn) {
  const bool under_way = phase_ != Phase::gathering || leases_.step() > 0;
  if (peer.role == Role::server) {
    if (servers_.erase(peer.rank) == 0) return;
    if (phase_ == Phase::finished || phase_ == Phase::terminated) return;
    turn.log(to_string(peer) + " is lost");
    code_probe("ps.server-lost");
    checkpoints_.server_lost(peer.rank, turn);
    if (under_way) ++restarts_;
    start_gathering(turn);
    return;
  }
  connected_.erase(peer.rank);
  pace_.leave(peer.rank);
  // The lease is removed even if the worker has no offer, since gathering removes all offers, but not the
  // leases.
  leases_.leave(peer.rank);
  if (std::erase_if(generation_.members, [&](const Member& member) { return member.rank == peer.rank; }) > 0)
    ++generation_.number;
  if (offers_.erase(peer.rank) == 0) return;
  code_probe("ps.worker-lost");
  parked_.erase(peer.rank);
  if (phase_ == Phase::finished || phase_ == Phase::terminated) return;
  if (under_way) ++restarts_;
  if (!stopping_) turn.log(to_string(peer) + " is lost, " + std::to_string(offers_.size()) + " go on");
  if (phase_ == Phase::running) serve_parked(turn);
  if (phase_ == Phase::seeding && seeding_.by(peer.rank)) start_gathering(turn);
  if (phase_ == Phase::ending && reporter_told_ == peer.rank) end(turn);
}

void Coordinator::worker_cut_off(PeerId worker, Turn& turn) {
  code_probe("ps.worker-cut-off");
  peer_down(worker, turn);
  connected_.insert(worker.rank);
}

void Coordinator::worker_joined(PeerId worker, std::uint64_t incarnation, const JoinMessage& join,
                                Turn& turn) {
  connected_.insert(worker.rank);
  // The worker may have made more steps since this server asked for its weights: gathering starts again.
  if (phase_ == Phase::seeding && seeding_.by(worker.rank)) {
    code_probe("ps.seeder-joins-again");
    start_gathering(turn, worker.rank);
  }
  parked_.erase(worker.rank);
  if (reporter_told_ == worker.rank) reporter_told_.reset();
  leases_.leave(worker.rank);
  leases_.join(worker.rank);
  data_ = join.data;
  offers_[worker.rank] = {join.clock, join.position, join.offline, join.restarts, join.lost_samples};
  const Member member{worker.rank, incarnation};
  if (!generation_.contains(member)) {
    std::erase_if(generation_.members, [&](const Member& m) { return m.rank == member.rank; });
    generation_.members.push_back(member);
    std::sort(generation_.members.begin(), generation_.members.end());
    ++generation_.number;
    if (phase_ == Phase::running) turn.log(to_string(worker) + " has joined");
  }
}

void Coordinator::server_joined(std::uint32_t server, bool empty, std::uint64_t round, Turn& turn) {
  empty = empty || seeding_.broke_off(round);
  servers_[server] = !empty;
  if (empty && phase_ != Phase::gathering && !seeding_.contains(server)) start_gathering(turn);
}

void Coordinator::server_without(std::uint32_t server, std::uint64_t clock, Turn& turn) {
  const bool begun = phase_ == Phase::running || phase_ == Phase::saving || phase_ == Phase::ending;
  if (!begun || clock != leases_.step()) return;  // an outdated message
  code_probe("ps.server-without");
  turn.log(to_string(PeerId{Role::server, server}) + " has no weights of step " + std::to_string(clock));
  if (server == 0) {
    forget(turn);
  } else {
    servers_[server] = false;
  }
  start_gathering(turn);
}

void Coordinator::worker_ready(PeerId worker, const ReadyMessage& ready, Turn& turn) {
  if (!offers_.contains(worker.rank)) {  // this server had removed the worker
    code_probe("ps.rejoin-wanted");
    send(turn, worker, MessageType::wait, leases_.step(), 0, flag_rejoin);
    return;
  }
  parked_.insert(worker.rank);
  if (phase_ == Phase::ending) {
    if (reporter_told_ != offers_.begin()->first) end(turn);
    return;
  }
  const std::uint64_t before = leases_.step(), every = settings_.config.checkpoint.every;
  bool moved_on = false;
  if (ready.done && (phase_ == Phase::running || phase_ == Phase::saving)) {
    progress_.loss_sum += ready.loss;
    ++progress_.loss_count;
    if (settings_.config.consistency.staleness) progress_.staleness.observe(ready.staleness);
    pace_.add(worker.rank, ready.seconds);
    moved_on = leases_.done(worker.rank, ready.clock, ready.slice);
  }
  if (every != 0 && leases_.step() / every > before / every) save_due_ = true;
  if (phase_ != Phase::running) return;
  // If a checkpoint is due while an earlier one is still being written, it waits until the earlier one is
  // done.
  if (moved_on && (leases_.finished() || (save_due_ && checkpoints_.can_start()))) return save(turn);
  if (moved_on) return serve_parked(turn);
  serve(worker.rank, turn);
}

void Coordinator::applied(std::uint64_t staleness) {
  if (!settings_.config.consistency.staleness) progress_.staleness.observe(staleness);
}

void Coordinator::serve_parked(Turn& turn) {
  for (const std::uint32_t worker : std::set<std::uint32_t>(parked_)) serve(worker, turn);
}

void Coordinator::serve(std::uint32_t worker, Turn& turn) {
  if (!parked_.contains(worker)) return;
  if (stopping_ && (!settings_.config.consistency.sync || leases_.step() != stopping_step_)) return;
  const auto grant = leases_.grant(worker);
  if (!grant) return;
  parked_.erase(worker);
  WorkMessage work;
  work.position = grant->position;
  work.samples = static_cast<std::uint32_t>(settings_.config.data.batch);
  work.own_slices = grant->own_slices;
  work.others_slices = grant->others_slices;
  work.run_position = leases_.position();
  work.restored_step = restored_step_;
  work.checkpoint = checkpoints_.committed();
  work.unsaved = checkpoints_.unsaved();
  work.reports = !offers_.empty() && offers_.begin()->first == worker;
  if (work.reports) {
    work.progress = take_progress(turn);
  } else {
    work.progress.run = run_view();
  }
  offers_[worker] = {grant->clock, leases_.position(), 0, restarts_, leases_.lost_samples()};
  send(turn, {Role::worker, worker}, MessageType::work, grant->clock, grant->slice, 0, encode(work));
}

// Training pauses until all servers have copied their shards. At the end of the run, or when this process
// ends, training pauses until the checkpoint is committed, or has failed for good.
void Coordinator::save(Turn& turn) {
  code_probe("ps.saving");
  phase_ = Phase::saving;
  saving_since_ = next_try_ = turn.now;
  tried_step_.reset();
  save_due_ = false;
  go_on_saving(turn);
}

void Coordinator::go_on_saving(Turn& turn) {
  if (stopping_ || leases_.finished()) {
    if (!save_last(turn)) return;
  } else {
    const std::uint64_t step = leases_.step();
    if (checkpoints_.can_start() && checkpoints_.wanted(step) && !tried_step_) start_checkpoint(turn);
    if (checkpoints_.copying()) return;
  }
  if (stopping_) {
    phase_ = Phase::terminated;
  } else if (leases_.finished()) {
    phase_ = Phase::ending;
    end(turn);
  } else {
    phase_ = Phase::running;
    serve_parked(turn);
  }
}

void Coordinator::start_checkpoint(Turn& turn) {
  std::set<std::uint32_t> others;
  for (const auto& [server, has_weights] : servers_) others.insert(server);
  tried_step_ = leases_.step();
  next_try_ = turn.now + ps_timers::save_retry;
  Manifest manifest{leases_.step(), leases_.position(), {}, data_};
  checkpoints_.start(std::move(manifest), {restarts_, leases_.lost_samples()}, others, turn);
}

// Returns true when the last state is saved or needs no checkpoint, or when no attempt to save it is left.
// Only the servers have the trained weights. So at the end of the run this server repeats a failed save, and
// this process fails if no attempt succeeds in time.
bool Coordinator::save_last(Turn& turn) {
  if (checkpoints_.under_way()) return false;
  if (!checkpoints_.wanted(leases_.step())) return true;
  const bool overdue = turn.now - saving_since_ > std::chrono::seconds(settings_.config.patience_seconds);
  // After SIGTERM, this server repeats a failed save of a trained model, but tries only once to save any
  // other state. With async, the updates after that one attempt are lost.
  const bool tried = leases_.finished() ? turn.now - stopping_since_ > ps_timers::last_save_patience
                                        : tried_step_.has_value();
  if (stopping_ && (tried || overdue)) return true;
  if (overdue) {
    code_probe("ps.last-save-overdue");
    const auto& why = checkpoints_.unsaved();
    turn.decide(unsaved(!checkpoints_.can_start() ? "a server still writes its part of the one before"
                        : why                     ? why->reason
                                                  : ""));
    return false;
  }
  if (!checkpoints_.can_start()) {
    code_probe("ps.save-waits");
    return false;
  }
  if (tried_step_ == leases_.step()) {
    if (turn.now < next_try_) return false;
    code_probe("ps.last-save-again");
  }
  start_checkpoint(turn);
  return false;
}

void Coordinator::captured(std::uint32_t server, std::uint64_t step, Turn& turn) {
  checkpoints_.captured(server, step);
  if (phase_ == Phase::saving) go_on_saving(turn);
}

void Coordinator::written(std::uint32_t server, const WrittenMessage& written, Turn& turn) {
  checkpoints_.written(server, written, turn);
}

// Asks the lowest live rank to evaluate and report. The other ranks hear of the end after the report.
void Coordinator::end(Turn& turn) {
  if (offers_.empty()) return;
  const std::uint32_t reporter = offers_.begin()->first;
  if (reporter_told_ && reporter_told_ != reporter) code_probe("ps.another-reports");
  reporter_told_ = reporter;
  const TrainedMessage trained{leases_.position(), checkpoints_.committed(), take_progress(turn)};
  send(turn, {Role::worker, reporter}, MessageType::trained, leases_.step(), 0, 0, encode(trained));
}

RunView Coordinator::run_view() const {
  return {
      static_cast<std::uint32_t>(offers_.size()), generation_.number, restarts_, leases_.lost_samples(), {}};
}

Progress Coordinator::take_progress(Turn& turn) {
  Progress progress = std::exchange(progress_, {});
  progress.run = run_view();
  progress.run.slowest = pace_.slowest();
  turn.decide(ShowRun{progress.run});
  return progress;
}

void Coordinator::worker_reported(std::span<const std::byte> result) {
  if (phase_ != Phase::ending) return;
  code_probe("ps.reported");
  phase_ = Phase::finished;
  result_.assign(result.begin(), result.end());
}

void Coordinator::stop(SteadyTime now) {
  if (stopping_ || phase_ == Phase::finished) return;
  code_probe("ps.stopping");
  stopping_ = true;
  stopping_step_ = leases_.step();
  stopping_since_ = now;
}

void Coordinator::tick(Turn& turn) {
  if (phase_ == Phase::gathering && !stopping_) gather(turn);
  if (turn.failed()) return;
  if (phase_ == Phase::seeding && seeding_.overdue(turn.now)) {
    code_probe("ps.seeding-overdue");
    start_gathering(turn);
  }
  checkpoints_.tick(turn);
  if (phase_ == Phase::saving) go_on_saving(turn);
  if (turn.failed()) return;
  if (stopping_ && phase_ != Phase::saving && phase_ != Phase::terminated) {
    if (phase_ != Phase::running) {
      if (!checkpoints_.under_way()) phase_ = Phase::terminated;
    } else if (!settings_.config.consistency.sync || leases_.step() != stopping_step_ || offers_.empty() ||
               turn.now - stopping_since_ > ps_timers::drain_patience) {
      if (turn.now - stopping_since_ > ps_timers::drain_patience) code_probe("ps.drain-overdue");
      save(turn);
    }
  }
  if (turn.now >= next_wait_) {
    next_wait_ = turn.now + ps_timers::wait_message_interval;
    const std::uint8_t flags = phase_ == Phase::gathering ? 0 : flag_running;
    if (!parked_.empty()) code_probe("ps.wait-told");
    for (const std::uint32_t worker : parked_)
      send(turn, {Role::worker, worker}, MessageType::wait, leases_.step(), 0, flags);
  }
}

}  // namespace mlk::rt
