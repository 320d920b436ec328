// The work of a server on its shard: it accepts seeds and gradients, sends weights, and saves the shard.
#include <algorithm>
#include <utility>

#include "runtime/base/code_probe.h"
#include "runtime/ps/machines/server_machine.h"

namespace mlk::rt {
namespace {

std::span<const float> floats_of(const Bytes& payload) {
  return {reinterpret_cast<const float*>(payload.data()), payload.size() / sizeof(float)};
}

Header header_of(MessageType type, std::uint64_t clock, std::uint32_t key = 0, std::uint8_t flags = 0) {
  return {.type = type, .flags = flags, .key = key, .clock = clock};
}

}  // namespace

// When a server other than 0 knows the model, it reports to server 0 whether it has weights, and of which
// round. The message also names the mark that this server has left in its folder for checkpoints.
void ServerMachine::introduce(Turn& turn) {
  if (coordinator_ || !model_.shard) return;
  turn.decide(SendMark{header_of(MessageType::join, model_.seeded_round, 0,
                                 model_.shard->complete() ? std::uint8_t{0} : flag_empty)});
}

void ServerMachine::on_join(const Event& event, Turn& turn) {
  const std::uint32_t rank = event.peer.rank;
  if (event.peer.role == Role::server) {
    if (!coordinator_) return;
    if (event.header.flags & flag_without)
      return coordinator_->server_without(rank, event.header.clock, turn);
    PayloadReader reader(event.payload);
    turn.decide(RequireShared{rank, reader.text()});
    if (const std::string why = reader.text(); !why.empty()) {
      coordinator_->unwritable(
          {ExitCode::checkpoint_unusable, to_string(event.peer) + " cannot write checkpoints: " + why});
    }
    return coordinator_->server_joined(rank, (event.header.flags & flag_empty) != 0, event.header.clock,
                                       turn);
  }
  const auto join = decode_join(event.header, event.payload);
  if (!join || join->tensors.empty() || !know_model(event, *join, turn)) return;
  workers_[rank] = event.header.generation;
  if (coordinator_) coordinator_->worker_joined(event.peer, event.incarnation, *join, turn);
}

// Returns false if the model of the worker differs from the model of earlier workers.
bool ServerMachine::know_model(const Event& event, const JoinMessage& join, Turn& turn) {
  if (model_.shard) {
    if (model_.tensors == join.tensors) return true;
    turn.decide(
        Failure(ExitCode::bad_configuration, to_string(event.peer) + " has another model than the others"));
    return false;
  }
  const Config& config = settings_.run.config;
  model_.tensors = join.tensors;
  model_.chunks = cut_chunks(model_.tensors, static_cast<std::uint32_t>(config.servers.count));
  model_.shard = std::make_unique<ParameterShard>(model_.chunks, settings_.rank,
                                                  Optimizer(config.optimizer, config.steps),
                                                  static_cast<std::uint32_t>(config.workers.count), ops_);
  if (coordinator_) coordinator_->model_is(model_.chunks);
  introduce(turn);
  return true;
}

// Server 0 opens a round with this message. This server answers with the same message.
void ServerMachine::on_seed_wanted(const Event& event, Turn& turn) {
  const std::uint64_t round = event.header.clock;
  if (event.peer.role != Role::server) return;
  if (coordinator_) return coordinator_->seeding_opened(event.peer.rank, round, turn);
  if (event.peer != server_0 || !model_.shard) return;
  model_.open_seeding(round);
  turn.send(server_0, header_of(MessageType::seed_wanted, round));
}

void ServerMachine::on_seed(const Event& event, Turn& turn) {
  const Header& header = event.header;
  if (!model_.shard || model_.seed_round == 0 || header.offset != model_.seed_round) {
    code_probe("ps.seed-too-late");
    return turn.decide(CountLate{});
  }
  const auto values = floats_of(event.payload);
  const bool with_state = (header.flags & flag_optimizer) != 0;
  const std::size_t size =
      with_state ? values.size() / (1 + model_.shard->optimizer().slots()) : values.size();
  if (!model_.shard->seed(header.key, header.clock, values.first(size), values.subspan(size)))
    return turn.log(to_string(event.peer) + " sent weights that do not fit");
  if (!model_.shard->complete()) return;
  const std::uint64_t round = model_.seeded_round = std::exchange(model_.seed_round, 0);
  if (coordinator_) {
    coordinator_->own_seeded(turn);
  } else {
    turn.send(server_0, header_of(MessageType::seeded, round));
  }
}

void ServerMachine::seed_from(const TrainingState& saved) {
  const std::size_t slots = model_.shard->optimizer().slots();
  for (const Chunk& chunk : model_.chunks) {
    if (chunk.server != settings_.rank) continue;
    const auto state = saved.optimizer_state.empty()
                           ? kernels::Floats()
                           : part_of_state(saved.optimizer_state, slots, chunk.offset, chunk.size);
    model_.shard->seed(chunk.id, saved.step, std::span(saved.parameters).subspan(chunk.offset, chunk.size),
                       state);
  }
  model_.seed_round = 0;
}

// header.key: the chunk. header.clock: the step (sync), or the number of the worker's push (async).
// header.offset: slice << 32 | samples (sync), or the version of the chunk with which the worker computed the
// gradient (async).
void ServerMachine::on_push(const Event& event, Turn& turn) {
  const Header& header = event.header;
  if (!model_.shard || event.peer.role != Role::worker) return;
  const auto gradient = floats_of(event.payload);
  if (!sync()) return on_update(event, gradient, turn);
  using enum ParameterShard::Outcome;
  const auto slice = static_cast<std::uint32_t>(header.offset >> 32);
  const auto samples = static_cast<std::uint32_t>(header.offset);
  const auto outcome = model_.shard->push_slice(header.key, header.clock, slice, gradient, samples);
  if (outcome == advanced) {
    for (const auto& [worker, generation] : workers_)
      queue_weights({Role::worker, worker}, header.key, header.clock + 1, turn);
  }
  const bool taken = outcome == accepted || outcome == advanced;
  if (!taken) code_probe("ps.server-behind");
  turn.send(event.peer, header_of(MessageType::accepted, header.clock, header.key,
                                  taken ? std::uint8_t{0} : flag_behind));
}

void ServerMachine::on_update(const Event& event, std::span<const float> gradient, Turn& turn) {
  const Header& header = event.header;
  using enum ParameterShard::Outcome;
  const auto view = model_.shard->view(header.key);
  const auto outcome = model_.shard->push_update(
      header.key, {event.peer.rank, event.incarnation, header.clock}, header.offset, gradient);
  if (outcome == unknown || !view) {
    return turn.send(event.peer, header_of(MessageType::accepted, header.clock, header.key, flag_behind));
  }
  if (outcome == advanced && coordinator_)
    coordinator_->applied(view->clock - std::min(view->clock, header.offset));
  queue_weights(event.peer, header.key, header.clock, turn);
}

void ServerMachine::on_pull(const Event& event, Turn& turn) {
  const Header& header = event.header;
  if (!model_.shard) return;
  const auto view = model_.shard->view(header.key);
  if (!view) return;
  if (!sync() || model_.shard->weights_at(header.key, header.clock))
    return queue_weights(event.peer, header.key, header.clock, turn);
  send_without(header.clock, turn);
}

// tag: the step of the weights (sync), or the number of the push or pull that is answered with the newest
// weights (async).
void ServerMachine::queue_weights(PeerId worker, std::uint32_t chunk, std::uint64_t tag, Turn& turn) {
  if (!model_.shard->view(chunk)) return;
  queued_[worker.rank][chunk] = tag;
  turn.decide(FlushWeights{worker});
}

std::optional<ServerMachine::Weights> ServerMachine::next_weights(PeerId worker) {
  const auto queued = queued_.find(worker.rank);
  if (queued == queued_.end()) return {};
  for (auto& chunks = queued->second; !chunks.empty();) {
    const auto [chunk, tag] = *chunks.begin();
    chunks.erase(chunks.begin());
    const auto view = model_.shard->view(chunk);
    if (!view) continue;  // the shard was forgotten in the meantime
    const auto weights = sync() ? model_.shard->weights_at(chunk, tag) : view->weights;
    if (!weights) continue;
    Header header = header_of(MessageType::weights, tag, chunk);
    header.data_type = DataType::float32;
    header.offset = sync() ? tag : view->clock;
    const auto joined = workers_.find(worker.rank);  // no entry if the worker has reported that it is cut off
    header.generation = joined == workers_.end() ? 0 : joined->second;
    return Weights{header, *weights};
  }
  return {};
}

void ServerMachine::on_capture(const Event& event, Turn& turn) {
  const auto capture = decode_capture(event.header, event.payload);
  if (coordinator_ || !capture || event.peer != server_0) return;
  turn.decide(CapturePart{*capture});
  turn.send(server_0, header_of(MessageType::captured, capture->step));
}

void ServerMachine::written(const WrittenMessage& written, Turn& turn) {
  if (!coordinator_) {
    turn.send(server_0, header_of(MessageType::written, written.step), encode(written));
  } else if (!finished_) {
    coordinator_->written(0, written, turn);
  }
  // No worker pulls the weights of the last step before the servers have saved them. So only the failed save
  // shows that this server lacks these weights.
  if (written.file.name.empty() && lacks_weights_of(written.step)) send_without(written.step, turn);
}

bool ServerMachine::lacks_weights_of(std::uint64_t step) const {
  return sync() && model_.shard && std::ranges::any_of(model_.chunks, [&](const Chunk& chunk) {
           return chunk.server == settings_.rank && !model_.shard->weights_at(chunk.id, step);
         });
}

// This server is at a later step than the run if all workers that had reached that step are lost. It is at an
// earlier step if a silent worker had a later step, and has seeded other servers since. In both cases this
// server needs new seeds.
void ServerMachine::send_without(std::uint64_t step, Turn& turn) {
  if (coordinator_) return coordinator_->server_without(0, step, turn);
  turn.send(server_0, header_of(MessageType::join, step, 0, flag_without));
}

void ServerMachine::disk_done(bool committed, const std::string& why) {
  if (coordinator_) coordinator_->disk_done(committed, why);
}

void ServerMachine::unwritable(const Failure& why) {
  if (coordinator_) coordinator_->unwritable(why);
}

void ServerMachine::loaded(const TrainingState* saved, Turn& turn) {
  if (!coordinator_) return;
  if (saved == nullptr) return coordinator_->loaded({}, turn);
  Coordinator::Saved found{saved->step, saved->position, saved->history, {}, saved->data};
  try {
    model_.shard->optimizer().check_fits(saved->optimizer_state, saved->parameters.size());
  } catch (const Failure& misfit) {
    found.misfit = misfit;
  }
  coordinator_->loaded(found, turn);
}

void ServerMachine::unusable(const Failure& why, Turn& turn) {
  if (coordinator_) coordinator_->unusable(why, turn);
}

}  // namespace mlk::rt
