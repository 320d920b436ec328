// The phases of a run with parameter servers: gathering, seeding, running (with pauses for saving), ending.
#include "runtime/ps_coordinator.h"

#include <algorithm>

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds wait_message_interval{2}, drain_patience{3}, save_retry{2};

PeerId worker_id(std::uint32_t rank) { return {Role::worker, rank}; }
PeerId server_id(std::uint32_t rank) { return {Role::server, rank}; }

}  // namespace

Coordinator::Coordinator(Job& job, Peers& peers, ServedModel& model, ShardCheckpoint& own_part)
    : job_(job),
      peers_(peers),
      model_(model),
      leases_(job.config),
      checkpoints_(job, peers, model, own_part),
      seeding_(peers, model),
      patience_(job) {}

void Coordinator::send(PeerId to, MessageType type, std::span<const std::byte> payload, std::uint64_t clock,
                       std::uint32_t key, std::uint8_t flags) {
  Header header;
  header.type = type;
  header.generation = generation_.number;
  header.clock = clock;
  header.key = key;
  header.flags = flags;
  peers_.transport().send(to, header, payload, WhenFull::refuse);
}

bool Coordinator::is_reporter(std::uint32_t worker) const {
  return !offers_.empty() && offers_.begin()->first == worker;
}

void Coordinator::worker_up(PeerId worker) { connected_.insert(worker.rank); }

void Coordinator::peer_down(PeerId peer) {
  const bool under_way = phase_ != Phase::gathering || leases_.step() > 0;
  if (peer.role == Role::server) {
    if (servers_.erase(peer.rank) == 0) return;
    if (phase_ == Phase::finished || phase_ == Phase::terminated) return;
    job_.log.line(to_string(peer) + " is lost");
    checkpoints_.give_up(to_string(peer) + " is lost");
    if (under_way) ++restarts_;
    start_gathering();
    return;
  }
  connected_.erase(peer.rank);
  pace_.leave(peer.rank);
  // While all are gathered again nobody has an offer, but what was leased before still counts.
  leases_.leave(peer.rank);
  if (std::erase_if(generation_.members, [&](const Member& member) { return member.rank == peer.rank; }) > 0)
    ++generation_.number;
  if (offers_.erase(peer.rank) == 0) return;
  parked_.erase(peer.rank);
  if (phase_ == Phase::finished || phase_ == Phase::terminated) return;
  if (under_way) ++restarts_;
  job_.log.line(to_string(peer) + " is lost, " + std::to_string(offers_.size()) + " go on");
  if (phase_ == Phase::running) serve_parked();
  if (phase_ == Phase::seeding && seeding_.by(peer.rank)) start_gathering();
  if (phase_ == Phase::ending) end();
}

void Coordinator::worker_joined(PeerId worker, std::uint64_t incarnation, const JoinMessage& join) {
  if (phase_ == Phase::finished) {
    told_.insert(worker.rank);
    send(worker, MessageType::finish, result_, leases_.step());
    return;
  }
  connected_.insert(worker.rank);
  // It may have gone on since it was asked for its weights.
  if (phase_ == Phase::seeding && seeding_.by(worker.rank)) start_gathering(worker.rank);
  parked_.erase(worker.rank);
  if (reporter_told_ == worker.rank) reporter_told_.reset();
  leases_.leave(worker.rank);
  leases_.join(worker.rank);
  offers_[worker.rank] = {join.clock, join.position, join.offline, join.restarts, join.lost_samples};
  const Member member{worker.rank, incarnation};
  if (!generation_.contains(member)) {
    std::erase_if(generation_.members, [&](const Member& m) { return m.rank == member.rank; });
    generation_.members.push_back(member);
    std::sort(generation_.members.begin(), generation_.members.end());
    ++generation_.number;
    if (phase_ == Phase::running) job_.log.line(to_string(worker) + " has joined");
  }
}

void Coordinator::server_joined(std::uint32_t server, bool empty, std::uint64_t round,
                                const std::string& mark) {
  checkpoints_.require_shared(server, mark);
  empty = empty || seeding_.broke_off(round);
  servers_[server] = !empty;
  if (phase_ == Phase::finished) send(server_id(server), MessageType::finish, result_, leases_.step());
  if (empty && phase_ != Phase::gathering && !seeding_.contains(server)) start_gathering();
}

void Coordinator::server_ahead(std::uint32_t server, std::uint64_t clock) {
  if (phase_ != Phase::running || clock != leases_.step()) return;  // an old question
  job_.log.line(to_string(server_id(server)) + " is ahead of step " + std::to_string(clock));
  if (server == 0) {
    model_.shard->forget();
  } else {
    servers_[server] = false;
  }
  start_gathering();
}

// joined: a worker that has just done so.
void Coordinator::start_gathering(std::optional<std::uint32_t> joined) {
  phase_ = Phase::gathering;
  offers_.clear();  // every worker is to join again when it has all servers
  parked_.clear();
  for (const std::uint32_t server : seeding_.give_up()) {
    if (servers_.contains(server)) servers_[server] = false;
  }
  enough_since_.reset();
  for (const std::uint32_t worker : connected_) {
    if (worker != joined) send(worker_id(worker), MessageType::wait, {}, 0, 0, flag_rejoin);
  }
}

std::vector<std::string> Coordinator::missing() const {
  std::vector<std::string> names;
  for (int rank = 0; rank < job_.config.workers.count; ++rank) {
    if (!offers_.contains(static_cast<std::uint32_t>(rank)))
      names.push_back("worker " + std::to_string(rank));
  }
  for (int rank = 1; rank < job_.config.servers.count; ++rank) {
    if (!servers_.contains(static_cast<std::uint32_t>(rank)))
      names.push_back("server " + std::to_string(rank));
  }
  return names;
}

void Coordinator::gather() {
  std::uint64_t newest = 0;
  for (const auto& [rank, offer] : offers_) newest = std::max(newest, offer.clock);
  const bool under_way = newest > 0 || (model_.shard && model_.shard->complete() && leases_.step() > 0);
  // A run that is under way goes on with those who are there; only its start waits for the minimum.
  const int minimum = under_way ? 1 : job_.config.workers.min;
  // If this server lost nothing it knows who is there; if it comes back it does not.
  const bool knows = model_.shard && model_.shard->complete();
  const int wanted =
      knows ? std::max<int>(1, static_cast<int>(connected_.size())) : job_.config.workers.count;
  const int present = static_cast<int>(offers_.size());
  const auto now = steady_clock::now();
  if (present < minimum) enough_since_.reset();
  if (present >= minimum && !enough_since_) enough_since_ = now;
  const double waited = enough_since_ ? std::chrono::duration<double>(now - *enough_since_).count() : 0;
  const bool servers_there = static_cast<int>(servers_.size()) + 1 >= job_.config.servers.count;
  if (servers_there && may_start(present, wanted, minimum, waited)) {
    patience_.satisfied();
    decide();
    return;
  }
  // Without any worker the server's own end counts, see ps_server.cpp.
  if (connected_.empty()) {
    patience_.satisfied();
  } else {
    patience_.missing(missing());
  }
}

void Coordinator::decide() {
  const auto best = std::max_element(offers_.begin(), offers_.end(), [](const auto& a, const auto& b) {
    return a.second.clock < b.second.clock;
  });
  // Weights of the step that this server has come to are of no use beside what nobody else has any more.
  const bool all_seeded =
      std::all_of(servers_.begin(), servers_.end(), [](const auto& server) { return server.second; });
  if (model_.shard->complete() && !all_seeded && best->second.clock == 0 && leases_.step() > 0) {
    job_.log.line("the weights of step " + std::to_string(leases_.step()) +
                  " are lost in part, and no worker has any");
    model_.shard->forget();
  }
  const bool was_empty = !model_.shard->complete();
  std::optional<TrainingState> saved;
  if (was_empty) saved = checkpoints_.restore();
  const bool from_checkpoint = saved && saved->step > best->second.clock;
  // What a worker did by itself is in no server's weights: it counts if some are lost anyway, and then for
  // all servers, since a model is of one step.
  const bool from_offline = !to_be_seeded(false).empty() && best->second.offline > 0;
  const auto servers =
      to_be_seeded(from_checkpoint || from_offline || (was_empty && best->second.clock == 0));
  phase_ = Phase::seeding;
  if (servers.empty()) return maybe_run();

  if (from_checkpoint) model_.shard->optimizer().check_fits(saved->optimizer_state, saved->parameters.size());
  seeding_.open(servers);
  for (auto& [server, has_weights] : servers_) {
    if (servers.contains(server)) has_weights = false;
  }
  if (from_checkpoint) {
    job_.log.line("goes on from the checkpoint of step " + std::to_string(saved->step));
    leases_.restart(saved->step, saved->position);
    restored_step_ = saved->step;
    seeding_.from_checkpoint(*saved);
  } else {
    say_who_seeds(best->first, best->second, servers);
    seeding_.from_worker(best->first);
    // With a live coordinator async goes on counting; sync goes back to the step that the weights are at.
    if (was_empty || from_offline || job_.config.consistency.sync)
      leases_.restart(best->second.clock, best->second.position);
  }
  if (was_empty && best->second.clock > 0) take_over();
  maybe_run();
}

// This server was lost, and the run was not: the workers know what it had counted. How far they came with
// what it had leased to them nobody knows, so all of it counts as lost.
void Coordinator::take_over() {
  std::uint64_t lost_samples = 0;
  for (const auto& [rank, offer] : offers_) {
    restarts_ = std::max(restarts_, offer.restarts);
    lost_samples = std::max(lost_samples, offer.lost_samples);
  }
  ++restarts_;
  if (job_.config.consistency.sync) return;
  leases_.count_lost(lost_samples + offers_.size() * static_cast<std::uint64_t>(job_.config.data.batch));
}

// A small model has fewer chunks than there may be servers.
std::set<std::uint32_t> Coordinator::to_be_seeded(bool all) const {
  std::set<std::uint32_t> servers;
  if (!model_.shard->complete()) servers.insert(0);
  for (const auto& [server, has_weights] : servers_) {
    if (!has_weights) servers.insert(server);
  }
  for (const Chunk& chunk : model_.chunks) {
    if (all) servers.insert(chunk.server);
  }
  return servers;
}

void Coordinator::say_who_seeds(std::uint32_t worker, const Offer& offer,
                                const std::set<std::uint32_t>& servers) {
  if (offer.clock == 0) return;
  for (const std::uint32_t server : servers) {
    job_.log.line(
        to_string(server_id(server)) + " is seeded by worker/" + std::to_string(worker) + " at step " +
        std::to_string(offer.clock) + "; its optimizer state starts at zero" +
        (offer.offline == 0 ? "" : "; it made " + std::to_string(offer.offline) + " steps offline"));
  }
}

void Coordinator::server_seeded(std::uint32_t server, std::uint64_t round) {
  if (!seeding_.seeded(server, round)) return;
  servers_[server] = true;
  if (phase_ == Phase::seeding) maybe_run();
}

void Coordinator::own_seeded() {
  seeding_.own_seeded();
  if (phase_ == Phase::seeding) maybe_run();
}

void Coordinator::maybe_run() {
  if (!seeding_.done()) return;
  phase_ = Phase::running;
  job_.log.line("training with " + std::to_string(offers_.size()) + " of " +
                std::to_string(job_.config.workers.count) + " workers from step " +
                std::to_string(leases_.step()));
  if (leases_.finished()) return save();
  serve_parked();
}

void Coordinator::worker_ready(PeerId worker, const ReadyMessage& ready) {
  if (phase_ == Phase::finished) return send(worker, MessageType::finish, result_, leases_.step());
  if (!offers_.contains(worker.rank)) {  // it was given up, and is back
    send(worker, MessageType::wait, {}, leases_.step(), 0, flag_rejoin);
    return;
  }
  parked_.insert(worker.rank);
  if (phase_ == Phase::ending) {
    if (reporter_told_ != offers_.begin()->first) end();
    return;
  }
  const std::uint64_t before = leases_.step(), every = job_.config.checkpoint.every;
  bool moved_on = false;
  if (ready.done && (phase_ == Phase::running || phase_ == Phase::saving)) {
    progress_.loss_sum += ready.loss;
    ++progress_.loss_count;
    if (job_.config.consistency.staleness) progress_.staleness.observe(ready.staleness);
    pace_.add(worker.rank, ready.seconds);
    moved_on = leases_.done(worker.rank, ready.clock, ready.slice);
  }
  if (every != 0 && leases_.step() / every > before / every) save_due_ = true;
  if (phase_ != Phase::running) return;
  // One that falls due while the one before is still being written is made as soon as that is done.
  if (moved_on && (leases_.finished() || (save_due_ && !checkpoints_.under_way()))) return save();
  if (moved_on) return serve_parked();
  serve(worker.rank);
}

void Coordinator::applied(std::uint64_t staleness) {
  if (!job_.config.consistency.staleness) progress_.staleness.observe(staleness);
}

void Coordinator::serve_parked() {
  for (const std::uint32_t worker : std::set<std::uint32_t>(parked_)) serve(worker);
}

bool Coordinator::serve(std::uint32_t worker) {
  if (!parked_.contains(worker)) return false;
  if (stopping_ && (!job_.config.consistency.sync || leases_.step() != stopping_step_)) return false;
  const auto grant = leases_.grant(worker);
  if (!grant) return false;
  parked_.erase(worker);
  WorkMessage work;
  work.position = grant->position;
  work.samples = static_cast<std::uint32_t>(job_.config.data.batch);
  work.own_slices = grant->own_slices;
  work.others_slices = grant->others_slices;
  work.run_position = leases_.position();
  work.restored_step = restored_step_;
  work.checkpoint = checkpoints_.committed();
  work.reports = is_reporter(worker);
  if (work.reports) {
    work.progress = take_progress();
  } else {
    work.progress.run = run_view();
  }
  offers_[worker] = {grant->clock, leases_.position(), 0, restarts_, leases_.lost_samples()};
  send(worker_id(worker), MessageType::work, encode(work), grant->clock, grant->slice);
  return true;
}

// Training stands still until all servers have copied their shards; at the end of the run or of this process
// until the checkpoint is there, or cannot be made.
void Coordinator::save() {
  phase_ = Phase::saving;
  saving_since_ = next_try_ = steady_clock::now();
  tried_step_.reset();
  save_due_ = false;
  go_on_saving();
}

void Coordinator::go_on_saving() {
  if (stopping_ || leases_.finished()) {
    if (!save_last()) return;
  } else {
    const std::uint64_t step = leases_.step();
    if (!checkpoints_.under_way() && checkpoints_.wanted(step) && !tried_step_) start_checkpoint();
    if (checkpoints_.copying()) return;
  }
  if (stopping_) {
    phase_ = Phase::terminated;
  } else if (leases_.finished()) {
    phase_ = Phase::ending;
    end();
  } else {
    phase_ = Phase::running;
    serve_parked();
  }
}

void Coordinator::start_checkpoint() {
  std::set<std::uint32_t> others;
  for (const auto& [server, has_weights] : servers_) others.insert(server);
  tried_step_ = leases_.step();
  next_try_ = steady_clock::now() + save_retry;
  checkpoints_.start(leases_.step(), leases_.position(), others);
}

// True when there is nothing left to do. Throws when the run is trained and nothing of it could be kept: what
// fails is tried again first, since only the servers have what was trained.
bool Coordinator::save_last() {
  if (checkpoints_.under_way()) return false;
  if (!checkpoints_.wanted(leases_.step())) return true;
  if (stopping_ && tried_step_) return true;  // async: a few updates more may have come in since
  const auto now = steady_clock::now();
  if (tried_step_ == leases_.step()) {
    if (now - saving_since_ > std::chrono::seconds(job_.config.patience_seconds)) fail_unsaved();
    if (now < next_try_) return false;
  }
  start_checkpoint();
  return false;
}

void Coordinator::captured(std::uint32_t server, std::uint64_t step) {
  checkpoints_.captured(server, step);
  if (phase_ == Phase::saving) go_on_saving();
}

void Coordinator::written(std::uint32_t server, const WrittenMessage& written) {
  checkpoints_.written(server, written);
}

// The lowest live rank evaluates and reports; the others are told when it has.
void Coordinator::end() {
  if (offers_.empty()) return;
  const std::uint32_t reporter = offers_.begin()->first;
  reporter_told_ = reporter;
  const TrainedMessage trained{leases_.position(), checkpoints_.committed(), take_progress()};
  send(worker_id(reporter), MessageType::trained, encode(trained), leases_.step());
}

RunView Coordinator::run_view() const {
  return {
      static_cast<std::uint32_t>(offers_.size()), generation_.number, restarts_, leases_.lost_samples(), {}};
}

Progress Coordinator::take_progress() {
  Progress progress = std::exchange(progress_, {});
  progress.run = run_view();
  progress.run.slowest = pace_.slowest();
  job_.reporter.telemetry().run(progress.run);
  return progress;
}

void Coordinator::worker_reported(std::span<const std::byte> result) {
  if (phase_ != Phase::ending) return;
  phase_ = Phase::finished;
  result_.assign(result.begin(), result.end());
  for (const std::uint32_t worker : connected_) {
    told_.insert(worker);
    send(worker_id(worker), MessageType::finish, result_, leases_.step());
  }
  for (const auto& [server, has_weights] : servers_)
    send(server_id(server), MessageType::finish, result_, leases_.step());
}

void Coordinator::stop() {
  if (stopping_ || phase_ == Phase::finished) return;
  stopping_ = true;
  stopping_step_ = leases_.step();
  stopping_since_ = steady_clock::now();
}

void Coordinator::tick() {
  const auto now = steady_clock::now();
  if (phase_ == Phase::gathering && !stopping_) gather();
  if (phase_ == Phase::seeding && seeding_.overdue()) start_gathering();
  checkpoints_.tick();
  if (phase_ == Phase::saving) go_on_saving();
  if (stopping_ && phase_ != Phase::saving && phase_ != Phase::terminated) {
    if (phase_ != Phase::running) {
      if (!checkpoints_.under_way()) phase_ = Phase::terminated;
    } else if (!job_.config.consistency.sync || leases_.step() != stopping_step_ || offers_.empty() ||
               now - stopping_since_ > drain_patience) {
      save();
    }
  }
  if (now >= next_wait_) {
    next_wait_ = now + wait_message_interval;
    const std::uint8_t flags = phase_ == Phase::gathering ? 0 : flag_running;
    for (const std::uint32_t worker : parked_)
      send(worker_id(worker), MessageType::wait, {}, leases_.step(), 0, flags);
  }
}

}  // namespace mlk::rt
