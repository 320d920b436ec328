// The loop of a parameter server: messages in, answers out, one at a time.
#include "runtime/ps/ps_server.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "kernels/ops.h"
#include "runtime/membership/peers.h"
#include "runtime/ps/parameter_server.h"
#include "runtime/ps/ps_checkpoint.h"
#include "runtime/ps/ps_coordinator.h"
#include "runtime/ps/ps_protocol.h"
#include "runtime/train/last_checkpoint.h"

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr Milliseconds look_interval{100}, look_interval_while_saving{2};
// How long messages are handled without a look at anything else.
constexpr Milliseconds longest_round{20};
// How long a server that is to end waits for server 0, which may still want its part of the last checkpoint.
// Less than what a pod is given.
constexpr std::chrono::seconds leave_patience{20};
constexpr std::chrono::hours first_worker_patience{24};
// A server that finds the last checkpoint waits only for workers that do not see it.
constexpr std::chrono::seconds trained_patience{10};
constexpr PeerId first_server{Role::server, 0};

std::span<const float> floats(const Bytes& payload) {
  return {reinterpret_cast<const float*>(payload.data()), payload.size() / sizeof(float)};
}

class PsServer {
 public:
  PsServer(Job& job, Peers& peers)
      : job_(job),
        peers_(peers),
        ops_(kernels::make_cpu_ops(job.env.threads)),
        part_(job, peers.self().rank, model_),
        trained_(LastCheckpoint(job).is_there()) {
    if (peers.self().rank == 0)
      coordinator_ = std::make_unique<Coordinator>(job, peers, model_, part_, trained_);
  }

  ExitCode run();

 private:
  void handle(const Event& event);
  void handle_message(const Event& event);
  void on_join(const Event& event);
  void on_seed_wanted(const Event& event);
  void on_seed(const Event& event);
  void on_push(const Event& event);
  void on_pull(const Event& event);
  void on_capture(const Event& event);
  void tell_written();
  void owe_weights(PeerId worker, std::uint32_t chunk, std::uint64_t tag);
  void pay(PeerId worker);
  void introduce();
  void send(PeerId to, MessageType type, std::uint64_t clock = 0, std::uint32_t key = 0,
            std::uint8_t flags = 0, std::span<const std::byte> payload = {});
  void finish(const Bytes& result);
  std::optional<ExitCode> over();
  std::chrono::seconds patience() const;

  Job& job_;
  Peers& peers_;
  std::unique_ptr<kernels::Ops> ops_;
  ServedModel model_;
  ShardCheckpoint part_;                            // of this server in checkpoints
  const bool trained_;                              // the last checkpoint was there when this server started
  std::unique_ptr<Coordinator> coordinator_;        // server 0 only
  std::map<std::uint32_t, std::uint64_t> workers_;  // joined: the generation that each last named
  std::map<std::uint32_t, std::uint64_t> linked_;   // connected: the incarnation
  // Weights that a worker is to get as soon as it takes them, by chunk: the tag of the answer. So what a slow
  // worker has not fetched is no copy.
  std::map<std::uint32_t, std::map<std::uint32_t, std::uint64_t>> owed_;
  std::set<std::uint32_t> left_;         // workers that ended, with exit code 0
  std::optional<SteadyTime> last_loss_;  // of a worker that had not ended with 0
  std::set<std::uint32_t> servers_;      // others that are connected
  const SteadyTime started_ = steady_clock::now();
  SteadyTime heard_ = started_;
  bool met_ = false;  // a worker was there
  std::optional<SteadyTime> finished_, stopped_;
  bool leader_up_ = false;    // server 0 is connected
  bool leader_left_ = false;  // it ended, with exit code 0
  Bytes result_;              // once finished: what the reporter left
};

ExitCode PsServer::run() {
  if (!coordinator_) peers_.dial(Role::server, 0);
  while (true) {
    const bool saving = part_.writing() || (coordinator_ && coordinator_->saving());
    if (const auto event = peers_.next(saving ? look_interval_while_saving : look_interval)) {
      handle(*event);
      // Time passes also under load: with many workers there may always be one more message.
      const auto until = steady_clock::now() + (saving ? look_interval_while_saving : longest_round);
      while (steady_clock::now() < until) {
        const auto more = peers_.next(Milliseconds(0));
        if (!more) break;
        handle(*more);
        if (!linked_.empty()) heard_ = steady_clock::now();
        if (coordinator_ && (coordinator_->finished() || coordinator_->terminated())) break;
      }
    }
    if (!coordinator_) {
      tell_written();
    } else if (!finished_) {
      coordinator_->tick();
    }
    if (const auto code = over()) return *code;
  }
}

// The run is trained: all who are there are told, and all who come from now on.
void PsServer::finish(const Bytes& result) {
  if (finished_) return;
  finished_ = steady_clock::now();
  peers_.run_is_trained();
  result_ = result;
  for (const auto& [worker, incarnation] : linked_)
    send({Role::worker, worker}, MessageType::finish, 0, 0, 0, result_);
  for (const std::uint32_t server : servers_)
    send({Role::server, server}, MessageType::finish, 0, 0, 0, result_);
}

// Workers may be pending for as long as their cluster is full; once they were there and are gone, the run is
// over, or starts again with new servers. When this server replaces a lost one, workers wait for it already.
std::chrono::seconds PsServer::patience() const {
  const std::chrono::seconds patience(job_.config.patience_seconds);
  if (trained_) return std::min<std::chrono::seconds>(patience, trained_patience);
  if (met_ || job_.env.failures > 0) return patience;
  return std::max<std::chrono::seconds>(patience, first_worker_patience);
}

// Whether and how this server ends now.
std::optional<ExitCode> PsServer::over() {
  const auto now = steady_clock::now();
  if (!linked_.empty()) heard_ = now;
  if (coordinator_ && coordinator_->finished()) finish(coordinator_->result());
  // Gathering needs all servers, but those that have ended with 0 do not come back. So the workers that wait
  // are told here that the run is trained.
  const bool stuck = trained_ && coordinator_ && coordinator_->gathering() && !linked_.empty();
  if (stuck && now - started_ > patience()) finish({});
  if (finished_) {
    const bool everyone = left_.size() >= static_cast<std::size_t>(job_.config.workers.count);
    const bool somebody_is_there = std::any_of(
        linked_.begin(), linked_.end(), [this](const auto& worker) { return !left_.contains(worker.first); });
    const auto until =
        late_deadline(*finished_, last_loss_, somebody_is_there, std::chrono::seconds(job_.env.late_seconds));
    const bool late = now > until || job_.stop.requested();
    if (!everyone && !leader_left_ && !late) return {};
    job_.reporter.finish(true, "");
    return ExitCode::trained;
  }
  if (job_.stop.requested()) {
    if (!stopped_) stopped_ = now;
    if (coordinator_) coordinator_->stop();
    // The others stay until server 0 has committed what they save.
    const bool saved =
        coordinator_ ? coordinator_->terminated() : !leader_up_ || now - *stopped_ > leave_patience;
    if (saved) {
      if (coordinator_) job_.reporter.checkpoint(coordinator_->committed());
      job_.reporter.finish(false, "terminated");
      return ExitCode::terminated;
    }
  }
  if (now - heard_ <= patience()) return {};
  job_.log.line(trained_ ? "the run is trained: its last checkpoint is there"
                         : "no worker was heard of for " + std::to_string(patience().count()) + " s");
  job_.reporter.finish(trained_, trained_ ? "" : "no worker was heard of");
  // One that replaces another and meets nobody knows nothing of the run, which may still need a server.
  return trained_ || met_ ? ExitCode::trained : ExitCode::peers_lost;
}

void PsServer::handle(const Event& event) {
  const PeerId peer = event.peer;
  switch (event.kind) {
    case Event::Kind::up:
      if (peer.role == Role::worker) {
        linked_[peer.rank] = event.incarnation;
        met_ = true;
        if (coordinator_) coordinator_->worker_up(peer);
      } else {
        servers_.insert(peer.rank);
        if (peer == first_server) leader_up_ = true;
        introduce();
      }
      if (finished_) send(peer, MessageType::finish, 0, 0, 0, result_);
      break;
    case Event::Kind::goodbye:
      if (event.header.clock != static_cast<std::uint64_t>(ExitCode::trained)) break;
      if (peer.role == Role::worker) left_.insert(peer.rank);
      if (peer == first_server) leader_left_ = true;
      break;
    case Event::Kind::down:
    case Event::Kind::silent:
      // A silent worker's share goes to others; what it still sends later counts at most once.
      if (peer.role == Role::worker) {
        if (event.kind == Event::Kind::down) {
          const auto linked = linked_.find(peer.rank);
          if (linked == linked_.end() || linked->second != event.incarnation) break;
          linked_.erase(linked);
          owed_.erase(peer.rank);
          if (!left_.contains(peer.rank)) last_loss_ = steady_clock::now();
        }
        workers_.erase(peer.rank);
      }
      if (coordinator_ && (peer.role == Role::worker || event.kind == Event::Kind::down))
        coordinator_->peer_down(peer);
      if (peer.role == Role::server && event.kind == Event::Kind::down) servers_.erase(peer.rank);
      if (peer == first_server && event.kind == Event::Kind::down) leader_up_ = false;
      break;
    case Event::Kind::audible:
      // It was given up while it was silent, and does not know: one that waits for work would wait for ever.
      if (const auto linked = linked_.find(peer.rank);
          peer.role == Role::worker && linked != linked_.end() && linked->second == event.incarnation) {
        if (coordinator_) {
          coordinator_->worker_up(peer);
          send(peer, MessageType::wait, 0, 0, flag_rejoin);
        }
        if (finished_) send(peer, MessageType::finish, 0, 0, 0, result_);
      }
      break;
    case Event::Kind::message:
      handle_message(event);
      break;
    case Event::Kind::room:
      if (peer.role == Role::worker) pay(peer);
      break;
    default:
      break;
  }
}

void PsServer::handle_message(const Event& event) {
  const Header& header = event.header;
  const bool from_worker = event.peer.role == Role::worker;
  // It was on its way when the run ended; what it is told first may have been refused for want of room.
  if (finished_ && (header.type == MessageType::join || header.type == MessageType::ready))
    return send(event.peer, MessageType::finish, 0, 0, 0, result_);
  if (from_worker && header.generation != 0) workers_[event.peer.rank] = header.generation;
  switch (header.type) {
    case MessageType::join:
      on_join(event);
      break;
    case MessageType::seed_wanted:
      on_seed_wanted(event);
      break;
    case MessageType::seed:
      on_seed(event);
      break;
    case MessageType::push:
      on_push(event);
      break;
    case MessageType::pull:
      on_pull(event);
      break;
    case MessageType::capture:
      on_capture(event);
      break;
    case MessageType::captured:
      if (coordinator_ && !from_worker) coordinator_->captured(event.peer.rank, header.clock);
      break;
    case MessageType::written:
      if (const auto written = decode_written(header, event.payload);
          written && coordinator_ && !from_worker) {
        coordinator_->written(event.peer.rank, *written);
      }
      break;
    case MessageType::finish:
      if (!from_worker) finish(event.payload);
      break;
    case MessageType::seeded:
      if (coordinator_ && !from_worker) coordinator_->server_seeded(event.peer.rank, header.clock);
      break;
    case MessageType::ready:
      if (const auto ready = decode_ready(event.payload); ready && coordinator_) {
        coordinator_->worker_ready(event.peer, *ready);
      }
      break;
    case MessageType::cut_off:
      if (!from_worker) break;
      workers_.erase(event.peer.rank);
      if (coordinator_) coordinator_->worker_cut_off(event.peer);
      break;
    case MessageType::reported:
      if (coordinator_) coordinator_->worker_reported(event.payload);
      break;
    default:
      break;
  }
}

void PsServer::send(PeerId to, MessageType type, std::uint64_t clock, std::uint32_t key, std::uint8_t flags,
                    std::span<const std::byte> payload) {
  Header header;
  header.type = type;
  header.clock = clock;
  header.key = key;
  header.flags = flags;
  peers_.transport().send(to, header, payload, WhenFull::refuse);
}

// Another server tells server 0 whether it has weights and of which round, as soon as it knows the model and
// could take some, and where it would write its part of a checkpoint.
void PsServer::introduce() {
  if (coordinator_ || !model_.shard) return;
  send(first_server, MessageType::join, model_.seeded_round, 0, model_.shard->complete() ? 0 : flag_empty,
       PayloadWriter().text(part_.leave_mark()).bytes());
}

void PsServer::on_join(const Event& event) {
  if (event.peer.role == Role::server) {
    if (!coordinator_) return;
    if (event.header.flags & flag_ahead) {
      coordinator_->server_ahead(event.peer.rank, event.header.clock);
    } else {
      const bool empty = (event.header.flags & flag_empty) != 0;
      coordinator_->server_joined(event.peer.rank, empty, event.header.clock,
                                  PayloadReader(event.payload).text());
    }
    return;
  }
  const auto join = decode_join(event.header, event.payload);
  if (!join || join->tensors.empty()) return;
  if (!model_.shard) {
    model_.tensors = join->tensors;
    model_.chunks = cut_chunks(model_.tensors, static_cast<std::uint32_t>(job_.config.servers.count));
    model_.shard = std::make_unique<ParameterShard>(
        model_.chunks, peers_.self().rank, Optimizer(job_.config.optimizer, job_.config.steps),
        static_cast<std::uint32_t>(job_.config.workers.count), *ops_);
    introduce();
  } else if (model_.tensors != join->tensors) {
    throw Failure(ExitCode::bad_configuration, to_string(event.peer) + " has another model than the others");
  }
  workers_[event.peer.rank] = event.header.generation;
  if (coordinator_) coordinator_->worker_joined(event.peer, event.incarnation, *join);
}

// Server 0 opens a round, and is answered the same.
void PsServer::on_seed_wanted(const Event& event) {
  if (event.peer.role != Role::server) return;
  if (coordinator_) return coordinator_->seeding_opened(event.peer.rank, event.header.clock);
  if (event.peer != first_server || !model_.shard) return;
  model_.open_seeding(event.header.clock);
  send(first_server, MessageType::seed_wanted, event.header.clock);
}

void PsServer::on_seed(const Event& event) {
  const Header& header = event.header;
  if (!model_.shard || model_.seed_round == 0 || header.offset != model_.seed_round)
    return peers_.transport().count_late();
  const auto values = floats(event.payload);
  const bool with_state = (header.flags & flag_optimizer) != 0;
  const std::size_t size =
      with_state ? values.size() / (1 + model_.shard->optimizer().slots()) : values.size();
  if (!model_.shard->seed(header.key, header.clock, values.first(size), values.subspan(size))) {
    job_.log.line(to_string(event.peer) + " sent weights that do not fit");
    return;
  }
  if (!model_.shard->complete()) return;
  const std::uint64_t round = model_.seeded_round = std::exchange(model_.seed_round, 0);
  if (coordinator_) {
    coordinator_->own_seeded();
  } else {
    send(first_server, MessageType::seeded, round);
  }
}

// header.key: chunk; header.clock: sync: the step, async: the worker's own count; header.offset: sync: slice
// << 32 | samples, async: the version of the chunk that the gradient was taken at.
void PsServer::on_push(const Event& event) {
  const Header& header = event.header;
  if (!model_.shard || event.peer.role != Role::worker) return;
  const auto gradient = floats(event.payload);
  if (!job_.config.consistency.sync) {
    const auto view = model_.shard->view(header.key);
    const auto outcome = model_.shard->push_update(
        header.key, {event.peer.rank, event.incarnation, header.clock}, header.offset, gradient);
    if (outcome == ParameterShard::Outcome::unknown || !view) {
      send(event.peer, MessageType::accepted, header.clock, header.key, flag_stale);
      return;
    }
    if (outcome == ParameterShard::Outcome::advanced && coordinator_)
      coordinator_->applied(view->clock - std::min(view->clock, header.offset));
    owe_weights(event.peer, header.key, header.clock);
    return;
  }
  const auto slice = static_cast<std::uint32_t>(header.offset >> 32);
  const auto samples = static_cast<std::uint32_t>(header.offset);
  const auto outcome = model_.shard->push_slice(header.key, header.clock, slice, gradient, samples);
  const bool taken =
      outcome == ParameterShard::Outcome::accepted || outcome == ParameterShard::Outcome::advanced;
  if (outcome == ParameterShard::Outcome::advanced) {
    for (const auto& [worker, generation] : workers_) {
      owe_weights({Role::worker, worker}, header.key, header.clock + 1);
    }
  }
  send(event.peer, MessageType::accepted, header.clock, header.key, taken ? 0 : flag_stale);
}

void PsServer::on_pull(const Event& event) {
  const Header& header = event.header;
  if (!model_.shard) return;
  const auto view = model_.shard->view(header.key);
  if (!view) return;
  if (!job_.config.consistency.sync || model_.shard->weights_at(header.key, header.clock)) {
    owe_weights(event.peer, header.key, header.clock);
  } else if (view->clock > header.clock) {
    // Nobody who is left may have been as far as this server: then it is to be seeded anew.
    if (coordinator_) coordinator_->server_ahead(0, header.clock);
    if (!coordinator_) send(first_server, MessageType::join, header.clock, 0, flag_ahead);
  }
}

// tag: sync: the clock of the weights; async: the worker's own count, and the weights are the newest.
void PsServer::owe_weights(PeerId worker, std::uint32_t chunk, std::uint64_t tag) {
  if (!model_.shard->view(chunk)) return;
  owed_[worker.rank][chunk] = tag;
  pay(worker);
}

void PsServer::pay(PeerId worker) {
  const auto owed = owed_.find(worker.rank);
  if (owed == owed_.end()) return;
  for (auto& chunks = owed->second; !chunks.empty() && peers_.transport().has_room(worker);) {
    const auto [chunk, tag] = *chunks.begin();
    chunks.erase(chunks.begin());
    const auto view = model_.shard->view(chunk);
    if (!view) continue;  // forgotten since
    const bool sync = job_.config.consistency.sync;
    const auto weights = sync ? model_.shard->weights_at(chunk, tag) : view->weights;
    if (!weights) continue;
    Header header;
    header.type = MessageType::weights;
    header.data_type = DataType::float32;
    header.key = chunk;
    header.clock = tag;
    header.offset = sync ? tag : view->clock;
    header.generation = workers_[worker.rank];
    peers_.transport().send(worker, header, std::as_bytes(*weights), WhenFull::refuse);
  }
}

void PsServer::on_capture(const Event& event) {
  const auto capture = decode_capture(event.header, event.payload);
  if (coordinator_ || !capture || event.peer != first_server) return;
  part_.capture(*capture);
  send(first_server, MessageType::captured, capture->step);
  tell_written();
}

void PsServer::tell_written() {
  while (const auto written = part_.take_written()) {
    send(first_server, MessageType::written, written->step, 0, 0, encode(*written));
  }
}

}  // namespace

ExitCode run_ps_server(Job& job) {
  return run_among_peers(job, [&job](Peers& peers) { return PsServer(job, peers).run(); });
}

}  // namespace mlk::rt
