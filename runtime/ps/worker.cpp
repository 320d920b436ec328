// The process of a worker: the sockets, the clock, the disk and the model around the WorkerMachine.
#include "runtime/ps/worker.h"

#include <optional>
#include <string>

#include "runtime/membership/peers.h"
#include "runtime/ps/exchange.h"
#include "runtime/ps/machines/offline.h"
#include "runtime/ps/machines/worker_machine.h"
#include "runtime/train/last_checkpoint.h"
#include "runtime/train/trainer.h"

namespace mlk::rt {
namespace {

class PsWorker {
 public:
  PsWorker(Job& job, Peers& peers)
      : job_(job),
        peers_(peers),
        trainer_(job),
        reports_(job, trainer_),
        last_(job),
        offline_(job, trainer_),
        exchange_(job, peers, trainer_.model()),
        machine_(job.config, trainer_.model().tensors(), std::chrono::steady_clock::now(),
                 trainer_.data_summary()) {}

  ExitCode run();

 private:
  template <typename Call>
  void act(Call call) {
    if (job_.stop.requested()) machine_.stop();
    WorkerTurn turn{std::chrono::steady_clock::now()};
    call(turn);
    for (auto& decision : turn.in_order) std::visit([this](auto& wanted) { execute(wanted); }, decision);
  }

  void execute(Effects::Effect& effect);
  void execute(const ExpectWeights& wanted) { exchange_.expect(wanted); }
  void execute(const CancelReceives&) { exchange_.cancel(); }
  void execute(const SendChunk& wanted) { exchange_.send(wanted); }
  void execute(const StoreWeights& wanted) { exchange_.store(wanted, handled_->payload); }
  void execute(const UseNextWeights&) { exchange_.use_next(); }
  void execute(const CountLate&) { peers_.transport().count_late(); }
  void execute(const TurnClock& wanted) { trainer_.clock().turn_to(wanted.activity); }
  void execute(const ForgetTimes&) { trainer_.clock().take(); }
  void execute(const OfflineSlice& wanted);
  void execute(const AbandonOfflineStep&) { offline_.abandon_step(); }
  void execute(const ForgetOfflineSteps&) { offline_.forget(); }
  void execute(const NoteCheckpoint& wanted) {
    job_.reporter.checkpoint(wanted.step);
    job_.reporter.unsaved(wanted.unsaved);
  }
  void execute(const NoteProgress& wanted);
  void execute(const ReportStep& wanted) {
    exchange_.use_newest();
    reports_.at_step(wanted.step, wanted.position, wanted.restored_step, false);
  }
  void execute(const Evaluate& wanted);
  void execute(const ComputeSlice& wanted);
  void execute(const CountStep& wanted);
  void execute(const EndTrained& wanted);
  void execute(const EndWithFound&) { ended_ = end_with(*found_, job_, trainer_, reports_); }
  void execute(const EndTerminated&);
  [[noreturn]] void execute(const Failure& failure) { throw failure; }

  Job& job_;
  Peers& peers_;
  Trainer trainer_;
  RunReports reports_;
  LastCheckpoint last_;
  std::optional<TrainingState> found_;  // the last checkpoint, if this worker has found it
  OfflineSteps offline_;
  WeightExchange exchange_;
  WorkerMachine machine_;
  const Event* handled_ = nullptr;
  std::optional<ExitCode> ended_;
};

ExitCode PsWorker::run() {
  act([this](WorkerTurn& turn) { machine_.start(turn); });
  while (!ended_) {
    if (machine_.checks_for_last(std::chrono::steady_clock::now())) {
      found_ = last_.find(trainer_.tensors());
      if (found_) act([this](WorkerTurn& turn) { machine_.found_last(turn); });
      if (ended_) break;
    }
    const auto event = peers_.next(machine_.wait(std::chrono::steady_clock::now()));
    handled_ = event ? &*event : nullptr;
    act([&](WorkerTurn& turn) { event ? machine_.handle(*event, turn) : machine_.tick(turn); });
  }
  return *ended_;
}

void PsWorker::execute(Effects::Effect& effect) {
  if (const auto* message = std::get_if<Effects::Message>(&effect)) {
    peers_.transport().send(message->to, message->header, message->payload);
  } else if (const auto* line = std::get_if<Effects::Line>(&effect)) {
    job_.log.line(line->text);
  }
}

void PsWorker::execute(const OfflineSlice& wanted) {
  std::uint64_t step = wanted.step, position = wanted.position;
  exchange_.use_newest();
  const bool made = offline_.advance(step, position);
  act([&](WorkerTurn& turn) { machine_.offline_advanced(made, step, position, turn); });
}

void PsWorker::execute(const NoteProgress& wanted) {
  const Progress& progress = wanted.progress;
  reports_.add_loss(progress.loss_sum, progress.loss_count);
  job_.reporter.telemetry().run(progress.run);
  job_.reporter.telemetry().staleness(progress.staleness);
}

void PsWorker::execute(const Evaluate& wanted) {
  exchange_.use_newest();
  const bool done = reports_.at_step(wanted.step, wanted.position, wanted.step, true);
  const std::string result = done ? job_.reporter.trained_result() : "";
  act([&](WorkerTurn& turn) { machine_.evaluated(done, result, turn); });
}

void PsWorker::execute(const ComputeSlice& wanted) {
  exchange_.use_newest();
  const double loss = trainer_.compute(wanted.position, wanted.samples, exchange_.copies_ahead());
  trainer_.clip();
  act([&](WorkerTurn& turn) { machine_.computed(loss, turn); });
}

void PsWorker::execute(const CountStep& wanted) {
  const StepTimes times = trainer_.clock().take();
  job_.reporter.telemetry().step(wanted.step, wanted.samples, times);
  act([&](WorkerTurn& turn) { machine_.step_counted(times.own(), turn); });
}

void PsWorker::execute(const EndTrained& wanted) {
  job_.reporter.finish_with(wanted.result);
  ended_ = ExitCode::trained;
}

void PsWorker::execute(const EndTerminated&) {
  job_.reporter.finish(false, "terminated");
  ended_ = ExitCode::terminated;
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
