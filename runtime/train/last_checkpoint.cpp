#include "runtime/train/last_checkpoint.h"

#include <string>

namespace mlk::rt {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds look_interval{1};

}  // namespace

LastCheckpoint::LastCheckpoint(const Job& job)
    : store_(job.env.checkpoints, job.config.checkpoint.keep, job.log),
      wanted_(!job.env.checkpoints.empty()),
      step_(job.config.steps) {}

bool LastCheckpoint::claimed() const { return wanted_ && store_.newest_step() >= step_; }

bool LastCheckpoint::is_there() const { return claimed() && store_.newest_is_whole(); }

std::optional<TrainingState> LastCheckpoint::find(std::span<const TensorInfo> tensors) {
  const auto now = steady_clock::now();
  if (now < next_look_) return {};
  next_look_ = now + look_interval;
  if (!claimed() || store_.newest_step() == useless_) return {};
  useless_ = store_.newest_step();
  try {
    auto found = store_.load_newest(tensors);
    if (found && found->step >= step_) return found;
  } catch (const Failure&) {  // the log says why; the training may still make a better one
  }
  return {};
}

ExitCode end_with(const TrainingState& found, Job& job, Trainer& trainer, RunReports& reports) {
  job.log.line("the run is trained: there is a checkpoint of step " + std::to_string(found.step));
  trainer.ops().write(found.parameters, trainer.model().parameters());
  job.reporter.checkpoint(found.step);
  if (!reports.at_step(found.step, found.position, found.step, true)) {
    job.reporter.finish(false, "terminated");
    return ExitCode::terminated;
  }
  job.reporter.finish(true, "");
  return ExitCode::trained;
}

}  // namespace mlk::rt
