// The training loop of one process.
#include "runtime/train/single.h"

#include <chrono>
#include <thread>

#include "runtime/checkpoint/checkpointer.h"
#include "runtime/train/trainer.h"

namespace mlk::rt {
namespace {

// The training loop and its state. After construction the state is that of step 0 or of the newest
// checkpoint.
class SingleTrainer {
 public:
  explicit SingleTrainer(Job& job)
      : job_(job),
        trainer_(job),
        reports_(job, trainer_),
        checkpointer_(job, trainer_.tensors(), trainer_.ops(), trainer_.data_summary()),
        optimizer_state_(trainer_.make_state()) {
    restore();
  }

  ExitCode run();

 private:
  void restore();
  void step();
  ExitCode terminate();
  bool report() {
    return reports_.at_step(state_.step, state_.position, restored_step_, state_.step >= job_.config.steps);
  }
  LiveState live() {
    return {state_.step, state_.position, trainer_.model().parameters(), optimizer_state_, state_.history};
  }

  Job& job_;
  Trainer trainer_;
  RunReports reports_;
  Checkpointer checkpointer_;
  kernels::Buffer<float> optimizer_state_;
  TrainingState state_;  // without the parameters (in the model) and the optimizer's state (above)
  std::uint64_t restored_step_ = 0;
};

void SingleTrainer::restore() {
  std::optional<TrainingState> found = checkpointer_.restore();
  checkpointer_.require_writable(found ? found->step : 0);
  if (!found) return;
  trainer_.restore(*found, optimizer_state_);
  state_ = std::move(*found);
  state_.parameters = state_.optimizer_state = kernels::Floats();
  restored_step_ = state_.step;
  job_.log.line("goes on from the checkpoint of step " + std::to_string(state_.step));
}

void SingleTrainer::step() {
  const auto batch = static_cast<std::uint64_t>(job_.config.data.batch);
  reports_.add_loss(trainer_.compute(state_.position, batch), 1);
  trainer_.apply(optimizer_state_, {state_.step, state_.step - state_.state_since});
  state_.position += batch;
  ++state_.step;
  trainer_.clock().turn_to(StepClock::Activity::other);
  job_.reporter.telemetry().step(state_.step, batch, trainer_.clock().take());
}

// If the model is trained, tries again and again to save it, for leave_patience. Tries to save any other
// state only once.
ExitCode SingleTrainer::terminate() {
  const bool trained = state_.step >= job_.config.steps;
  checkpointer_.save_now(live(), trained ? Checkpointer::leave_patience : std::chrono::seconds(0));
  const bool written = state_.step > 0 && checkpointer_.committed() == state_.step;
  job_.reporter.checkpoint(checkpointer_.committed());
  const std::string message = "terminated after step " + std::to_string(state_.step);
  job_.log.line(message + ", " + (written ? "checkpoint written" : "no checkpoint"));
  job_.reporter.finish(false, message);
  return ExitCode::terminated;
}

ExitCode SingleTrainer::run() {
  bool reported = report();
  while (state_.step < job_.config.steps) {
    if (job_.stop.requested()) return terminate();
    step();
    checkpointer_.after_step(live());
    job_.reporter.checkpoint(checkpointer_.committed());
    reported = report();
  }
  if (!reported) return terminate();
  const std::chrono::seconds patience(job_.config.patience_seconds);
  Checkpointer::Last last;
  while ((last = checkpointer_.last(live(), patience)) == Checkpointer::Last::under_way) {
    if (job_.stop.requested()) return terminate();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (last == Checkpointer::Last::failed) throw unsaved(checkpointer_.why_unsaved());
  job_.reporter.checkpoint(checkpointer_.committed());
  job_.reporter.finish(true, "");
  return ExitCode::trained;
}

}  // namespace

ExitCode run_single(Job& job) { return SingleTrainer(job).run(); }

}  // namespace mlk::rt
