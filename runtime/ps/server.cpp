// The process of a parameter server: the sockets, the clock and the disk around the ServerMachine.
#include "runtime/ps/server.h"

#include <memory>
#include <optional>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops.h"
#include "runtime/membership/peers.h"
#include "runtime/ps/checkpoint.h"
#include "runtime/ps/machines/server_machine.h"
#include "runtime/ps/machines/timers.h"
#include "runtime/train/last_checkpoint.h"

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

ServerMachine::Settings server_settings(const Job& job, const Identity& self) {
  const Coordinator::Settings run{job.config, self.incarnation, !job.env.checkpoints.empty(),
                                  LastCheckpoint(job).is_there(), CheckpointStore::name_aside};
  return {self.id.rank, run, job.env.failures, std::chrono::seconds(job.env.late_seconds)};
}

class PsServer {
 public:
  PsServer(Job& job, Peers& peers)
      : job_(job),
        peers_(peers),
        ops_(kernels::make_cpu_ops(job.env.threads)),
        machine_(server_settings(job, peers.transport().self()), *ops_, steady_clock::now()),
        folder_(job),
        part_(job, peers.self().rank, machine_.model()) {}

  ExitCode run();

 private:
  template <typename Call>
  void act(Call call) {
    Turn turn{steady_clock::now()};
    call(turn);
    execute(turn);
  }
  void take_messages();
  void poll();
  void execute(const Turn& turn, const TrainingState* loaded = nullptr);
  void load();
  void seed_others(const SeedFromCheckpoint& wanted, const TrainingState& saved);
  void flush_weights(PeerId worker);
  void end(const End& end);

  Job& job_;
  Peers& peers_;
  std::unique_ptr<kernels::Ops> ops_;
  ServerMachine machine_;
  CheckpointFolder folder_;
  ShardCheckpoint part_;  // this server's part of checkpoints
  std::optional<ExitCode> ended_;
};

ExitCode PsServer::run() {
  if (peers_.self().rank != 0) peers_.dial(Role::server, 0);
  while (!ended_) {
    take_messages();
    poll();
  }
  return *ended_;
}

// Returns after a bounded time. So poll() also runs while workers send messages without a pause.
void PsServer::take_messages() {
  const bool saving = part_.writing() || machine_.saving();
  const Milliseconds interval = saving ? ps_timers::look_interval_while_saving : ps_timers::look_interval;
  auto event = peers_.next(interval);
  if (!event) return;
  const auto until =
      steady_clock::now() + (saving ? ps_timers::look_interval_while_saving : ps_timers::longest_round);
  while (event) {
    act([&](Turn& turn) { machine_.handle(*event, turn); });
    if (machine_.ends() || steady_clock::now() >= until) return;
    event = peers_.next(Milliseconds(0));
  }
}

void PsServer::poll() {
  while (const auto written = part_.take_written())
    act([&](Turn& turn) { machine_.written(*written, turn); });
  if (const auto done = folder_.take_done()) machine_.disk_done(done->committed, done->why);
  if (job_.stop.requested()) machine_.stop();
  act([this](Turn& turn) { machine_.tick(turn); });
}

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

// loaded: the checkpoint that was just read and that SeedFromCheckpoint sends; null in all other turns.
void PsServer::execute(const Turn& turn, const TrainingState* loaded) {
  for (const Turn::Decision& decision : turn.in_order) {
    std::visit(
        Overloaded{
            [this](const Effects::Effect& effect) { peers_.execute(effect); },
            [this](const OpenSeeding& wanted) { machine_.open_seeding(wanted.round); },
            [this](const LoadCheckpoint&) { load(); },
            [&](const SeedFromCheckpoint& wanted) { seed_others(wanted, *loaded); },
            [this](const CapturePart& wanted) { part_.capture(wanted.capture, wanted.history); },
            [this](const CommitCheckpoint& wanted) { folder_.commit(wanted); },
            [this](const DiscardAside& wanted) { folder_.discard(wanted); },
            [this](const ShowRun& wanted) { job_.reporter.telemetry().run(wanted.run); },
            [this](const SendMark& wanted) {
              const std::string why = part_.why_unwritable();
              const auto mark = PayloadWriter().text(why.empty() ? part_.leave_mark() : "").text(why).bytes();
              peers_.transport().send(server_0, wanted.header, mark, WhenFull::refuse);
            },
            [this](const RequireShared& wanted) { folder_.require_shared(wanted.server, wanted.mark); },
            [this](const FlushWeights& wanted) { flush_weights(wanted.worker); },
            [this](const CountLate&) { peers_.transport().count_late(); },
            [this](const RunIsTrained&) { peers_.run_is_trained(); },
            [this](const End& wanted) { end(wanted); },
            [](const Failure& failure) { throw failure; },
        },
        decision);
  }
}

void PsServer::load() {
  std::optional<TrainingState> saved;
  Turn turn{steady_clock::now()};
  try {
    saved = folder_.load(machine_.model().tensors);
    if (!saved || saved->step < job_.config.steps) {
      if (const auto why = folder_.unwritable()) machine_.unwritable(*why);
    }
    turn.now = steady_clock::now();
    machine_.loaded(saved ? &*saved : nullptr, turn);
  } catch (const Failure& failure) {
    if (failure.code != ExitCode::checkpoint_unusable) throw;
    machine_.unusable(failure, turn);
  }
  execute(turn, saved ? &*saved : nullptr);
}

void PsServer::seed_others(const SeedFromCheckpoint& wanted, const TrainingState& saved) {
  if (wanted.servers.contains(0)) machine_.seed_from(saved);
  const ServedModel& model = machine_.model();
  const bool with_state = !saved.optimizer_state.empty();
  for (const Chunk& chunk : model.chunks) {
    if (chunk.server == 0 || !wanted.servers.contains(chunk.server)) continue;
    const Header header{.type = MessageType::seed,
                        .flags = with_state ? flag_optimizer : std::uint8_t{0},
                        .data_type = DataType::float32,
                        .key = chunk.id,
                        .clock = saved.step,
                        .offset = wanted.round};
    PayloadWriter payload;
    payload.raw(std::as_bytes(std::span(saved.parameters).subspan(chunk.offset, chunk.size)));
    if (with_state) {
      const auto state =
          part_of_state(saved.optimizer_state, model.shard->optimizer().slots(), chunk.offset, chunk.size);
      payload.raw(std::as_bytes(std::span(state)));
    }
    peers_.transport().send({Role::server, chunk.server}, header, payload.bytes());
  }
}

void PsServer::flush_weights(PeerId worker) {
  while (machine_.has_queued(worker) && peers_.transport().has_room(worker)) {
    const auto weights = machine_.next_weights(worker);
    if (!weights) return;
    peers_.transport().send(worker, weights->header, std::as_bytes(weights->values), WhenFull::refuse);
  }
}

void PsServer::end(const End& end) {
  if (end.checkpoint) job_.reporter.checkpoint(*end.checkpoint);
  job_.reporter.finish(end.trained, end.message);
  ended_ = end.code;
}

}  // namespace

ExitCode run_ps_server(Job& job) {
  return run_among_peers(job, [&job](Peers& peers) { return PsServer(job, peers).run(); });
}

}  // namespace mlk::rt
