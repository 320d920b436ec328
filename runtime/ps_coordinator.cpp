// The phases of a run with parameter servers: gathering, seeding, running (with pauses for saving), ending.
#include "runtime/ps_coordinator.h"

#include <algorithm>

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds wait_message_interval{2}, drain_patience{3}, save_patience{5},
    seed_patience{20};

PeerId worker_id(std::uint32_t rank) { return {Role::worker, rank}; }
PeerId server_id(std::uint32_t rank) { return {Role::server, rank}; }

Snapshot snapshot_of(const TrainingState& state) {
  const std::size_t size = state.parameters.size();
  Snapshot snapshot;
  snapshot.restart(state.step, state.position, size + state.optimizer_state.size());
  snapshot.add(0, 0, state.parameters);
  for (std::size_t slot = 0; slot < state.optimizer_state.size() / size; ++slot) {
    snapshot.add(1 + slot, 0, std::span(state.optimizer_state).subspan(slot * size, size));
  }
  return snapshot;
}

}  // namespace

Coordinator::Coordinator(Job& job, Peers& peers, ServedModel& model)
    : job_(job),
      peers_(peers),
      model_(model),
      leases_(job.config),
      store_(job.env.checkpoints, job.config.checkpoint.keep, job.log),
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
  if (peer.role == Role::server) {
    if (servers_.erase(peer.rank) == 0) return;
    if (phase_ == Phase::finished || phase_ == Phase::terminated) return;
    job_.log.line(to_string(peer) + " is lost");
    start_gathering();
    return;
  }
  connected_.erase(peer.rank);
  if (offers_.erase(peer.rank) == 0) return;
  parked_.erase(peer.rank);
  leases_.leave(peer.rank);
  std::erase_if(generation_.members, [&](const Member& member) { return member.rank == peer.rank; });
  ++generation_.number;
  if (phase_ == Phase::finished || phase_ == Phase::terminated) return;
  job_.log.line(to_string(peer) + " is lost, " + std::to_string(offers_.size()) + " go on");
  if (phase_ == Phase::running) serve_parked();
  if (phase_ == Phase::ending) end();
}

void Coordinator::worker_joined(PeerId worker, std::uint64_t incarnation, const JoinMessage& join) {
  if (phase_ == Phase::finished) {
    told_.insert(worker.rank);
    send(worker, MessageType::finish, result_, leases_.step());
    return;
  }
  connected_.insert(worker.rank);
  parked_.erase(worker.rank);
  if (reporter_told_ == worker.rank) reporter_told_.reset();
  leases_.leave(worker.rank);
  leases_.join(worker.rank);
  offers_[worker.rank] = {join.clock, join.position};
  const Member member{worker.rank, incarnation};
  if (!generation_.contains(member)) {
    std::erase_if(generation_.members, [&](const Member& m) { return m.rank == member.rank; });
    generation_.members.push_back(member);
    std::sort(generation_.members.begin(), generation_.members.end());
    ++generation_.number;
    if (phase_ == Phase::running) job_.log.line(to_string(worker) + " has joined");
  }
}

void Coordinator::server_joined(std::uint32_t server, bool empty) {
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

void Coordinator::start_gathering() {
  phase_ = Phase::gathering;
  offers_.clear();  // every worker is to join again when it has all servers
  parked_.clear();
  seeding_.clear();
  enough_since_.reset();
  for (const std::uint32_t worker : connected_)
    send(worker_id(worker), MessageType::wait, {}, 0, 0, flag_rejoin);
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
  const bool was_empty = !model_.shard->complete();
  seeding_.clear();
  if (was_empty) seeding_.insert(0);
  for (const auto& [server, has_weights] : servers_) {
    if (!has_weights || (was_empty && best->second.clock == 0)) seeding_.insert(server);
  }
  phase_ = Phase::seeding;
  seeding_since_ = steady_clock::now();
  if (seeding_.empty()) return maybe_run();

  std::optional<TrainingState> saved;
  if (was_empty && !job_.env.checkpoints.empty()) saved = store_.load_newest(model_.tensors);
  if (saved && saved->step > best->second.clock) {
    gathered_ = std::move(*saved);
    seed_from_checkpoint();
  } else {
    seed_from_worker(best->first, best->second);
    // With a live coordinator async goes on counting; sync goes back to the step that the weights are at.
    if (was_empty || job_.config.consistency.sync) leases_.restart(best->second.clock, best->second.position);
  }
}

void Coordinator::seed_from_checkpoint() {
  job_.log.line("goes on from the checkpoint of step " + std::to_string(gathered_.step));
  leases_.restart(gathered_.step, gathered_.position);
  saved_step_ = restored_step_ = gathered_.step;
  for (const auto& [server, has_weights] : servers_) seeding_.insert(server);
  model_.shard->optimizer().check_fits(gathered_.optimizer_state, gathered_.parameters.size());
  const bool with_state = !gathered_.optimizer_state.empty();
  const std::size_t slots = model_.shard->optimizer().slots();
  std::map<std::uint32_t, std::uint64_t> ordinal;
  model_.shard->forget();
  for (const Chunk& chunk : model_.chunks) {
    const auto weights = std::span(gathered_.parameters).subspan(chunk.offset, chunk.size);
    const auto state = with_state ? part_of_state(gathered_.optimizer_state, slots, chunk.offset, chunk.size)
                                  : std::vector<float>();
    if (chunk.server == 0) {
      model_.shard->seed(chunk.id, gathered_.step, weights, state);
      continue;
    }
    Header header;
    header.type = MessageType::seed;
    header.data_type = DataType::float32;
    header.key = chunk.id;
    header.clock = gathered_.step;
    header.offset = ordinal[chunk.server]++;
    header.flags = with_state ? flag_optimizer : 0;
    const Bytes payload =
        PayloadWriter().raw(std::as_bytes(weights)).raw(std::as_bytes(std::span(state))).bytes();
    peers_.transport().send(server_id(chunk.server), header, payload);
  }
  server_seeded(0);
}

void Coordinator::seed_from_worker(std::uint32_t worker, const Offer& offer) {
  if (offer.clock > 0) {
    for (const std::uint32_t server : seeding_) {
      job_.log.line(to_string(server_id(server)) + " is seeded by worker/" + std::to_string(worker) +
                    " at step " + std::to_string(offer.clock) + "; its optimizer state starts at zero");
    }
  }
  for (const std::uint32_t server : seeding_)
    send(worker_id(worker), MessageType::seed_wanted, {}, offer.clock, server);
}

void Coordinator::server_seeded(std::uint32_t server) {
  if (server != 0) servers_[server] = true;
  seeding_.erase(server);
  if (phase_ == Phase::seeding) maybe_run();
}

void Coordinator::maybe_run() {
  if (!seeding_.empty()) return;
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
  bool moved_on = false;
  if (ready.done && (phase_ == Phase::running || phase_ == Phase::saving)) {
    loss_sum_ += ready.loss;
    ++loss_count_;
    moved_on = leases_.done(worker.rank, ready.clock, ready.slice);
  }
  if (phase_ != Phase::running) return;
  const std::uint64_t every = job_.config.checkpoint.every;
  if (moved_on && (leases_.finished() || (every != 0 && leases_.step() % every == 0))) return save();
  if (moved_on) return serve_parked();
  serve(worker.rank);
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
  work.run_position = leases_.position();
  work.restored_step = restored_step_;
  work.reports = is_reporter(worker);
  if (work.reports) {
    work.loss_sum = std::exchange(loss_sum_, 0);
    work.loss_count = std::exchange(loss_count_, 0);
  }
  offers_[worker] = {grant->clock, leases_.position()};
  send(worker_id(worker), MessageType::work, encode(work), grant->clock, grant->slice);
  return true;
}

void Coordinator::save() {
  phase_ = Phase::saving;
  saving_since_ = steady_clock::now();
  outstanding_chunks_.clear();
  if (job_.env.checkpoints.empty() || saved_step_ == leases_.step()) return saved();
  const TensorInfo& last = model_.tensors.back();
  gathered_.step = leases_.step();
  gathered_.position = leases_.position();
  gathered_.parameters.assign(last.offset + last.size, 0);
  gathered_.optimizer_state.assign(model_.shard->optimizer().slots() * (last.offset + last.size), 0);
  for (const Chunk& chunk : model_.chunks) {
    if (chunk.server != 0) {
      outstanding_chunks_.insert(chunk.id);
      continue;
    }
    const auto view = model_.shard->view(chunk.id);
    const auto weights =
        job_.config.consistency.sync ? model_.shard->weights_at(chunk.id, leases_.step()) : std::nullopt;
    std::ranges::copy(weights.value_or(view->weights),
                      gathered_.parameters.begin() + static_cast<std::ptrdiff_t>(chunk.offset));
    place_in_state(view->state, model_.shard->optimizer().slots(), chunk.offset, gathered_.optimizer_state);
  }
  for (const auto& [server, has_weights] : servers_)
    send(server_id(server), MessageType::fetch, {}, leases_.step());
  if (outstanding_chunks_.empty()) saved();
}

void Coordinator::state_arrived(const Header& header, std::span<const float> values) {
  if (phase_ != Phase::saving || header.key >= model_.chunks.size()) return;
  const Chunk& chunk = model_.chunks[header.key];
  const std::size_t slots = model_.shard->optimizer().slots();
  if (values.size() != (1 + slots) * chunk.size || outstanding_chunks_.erase(chunk.id) == 0) return;
  std::ranges::copy(values.first(chunk.size),
                    gathered_.parameters.begin() + static_cast<std::ptrdiff_t>(chunk.offset));
  place_in_state(values.subspan(chunk.size), slots, chunk.offset, gathered_.optimizer_state);
  if (outstanding_chunks_.empty()) saved();
}

// The checkpoint is gathered, or none is wanted: write it and go on.
void Coordinator::saved() {
  const bool wanted = !job_.env.checkpoints.empty() && saved_step_ != leases_.step();
  const bool written =
      wanted && outstanding_chunks_.empty() && store_.save(snapshot_of(gathered_), model_.tensors);
  if (written) saved_step_ = gathered_.step;
  if (stopping_) {
    phase_ = Phase::terminated;
  } else if (leases_.finished()) {
    if (wanted && !written) {
      throw Failure(ExitCode::internal_error, "trained, but the last checkpoint could not be written");
    }
    if (wanted && saved_step_ != leases_.step()) return save();  // updates came in while it was gathered
    phase_ = Phase::ending;
    end();
  } else {
    phase_ = Phase::running;
    serve_parked();
  }
}

// The lowest live rank evaluates and reports; the others are told when it has.
void Coordinator::end() {
  if (offers_.empty()) return;
  const std::uint32_t reporter = offers_.begin()->first;
  reporter_told_ = reporter;
  PayloadWriter text;
  text.put(leases_.position()).put(std::exchange(loss_sum_, 0)).put(std::exchange(loss_count_, 0));
  send(worker_id(reporter), MessageType::trained, text.bytes(), leases_.step());
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
  if (phase_ == Phase::seeding && now - seeding_since_ > seed_patience) start_gathering();
  if (phase_ == Phase::saving && now - saving_since_ > save_patience) {
    job_.log.line("a checkpoint was given up: servers did not send their weights");
    saved();
  }
  if (stopping_ && phase_ != Phase::saving && phase_ != Phase::terminated) {
    if (phase_ != Phase::running) {
      phase_ = Phase::terminated;
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
