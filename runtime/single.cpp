// The training loop of one process.
#include "runtime/single.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/ops.h"
#include "runtime/checkpointer.h"
#include "runtime/dataset.h"
#include "runtime/model.h"
#include "runtime/optimizer.h"
#include "runtime/sampler.h"
#include "runtime/step_clock.h"

namespace mlk::rt {
namespace {

// Everything that the loop holds. Constructed from a Job, it is at step 0 or where the newest checkpoint was.
class SingleTrainer {
 public:
  explicit SingleTrainer(Job& job)
      : job_(job),
        ops_(kernels::make_cpu_ops(job.env.threads)),
        data_(load_idx(job.env.data)),
        model_(job.config.model, data_.train.inputs(), data_.train.classes(), job.config.seed, *ops_),
        optimizer_(job.config.optimizer, job.config.steps),
        checkpointer_(job, model_.tensors()) {
    restore();
    state_.optimizer_state.resize(optimizer_.slots() * model_.parameters().size());
  }

  ExitCode run();

 private:
  [[noreturn]] void fail_diverged() const;
  void restore();
  float step();
  void report(double loss);
  ExitCode terminate();
  LiveState live() const {
    return {state_.step, state_.position, model_.parameters(), state_.optimizer_state};
  }

  std::uint64_t epoch() const { return state_.position / data_.train.size(); }

  Job& job_;
  std::unique_ptr<kernels::Ops> ops_;
  DataSplit data_;
  Mlp model_;
  Optimizer optimizer_;
  TrainingState state_;  // the parameters live in the model
  BatchBuffer buffer_;
  std::vector<std::uint64_t> ids_;
  StepClock clock_;
  Checkpointer checkpointer_;
};

void SingleTrainer::fail_diverged() const {
  throw Failure(ExitCode::diverged, "diverged: after step " + std::to_string(state_.step) +
                                        " the loss is not a number; a smaller optimizer.lr may help");
}

void SingleTrainer::restore() {
  std::optional<TrainingState> found = checkpointer_.restore();
  if (!found) return;
  optimizer_.check_fits(found->optimizer_state, found->parameters.size());
  std::ranges::copy(found->parameters, model_.parameters().begin());
  state_ = std::move(*found);
  state_.parameters = std::vector<float>();
  job_.log.line("goes on from the checkpoint of step " + std::to_string(state_.step));
}

float SingleTrainer::step() {
  const auto batch = static_cast<std::uint64_t>(job_.config.data.batch);
  clock_.turn_to(StepClock::Activity::data);
  ids_.clear();
  for (std::uint64_t i = 0; i < batch; ++i) {
    ids_.push_back(sample_at(job_.config.seed, state_.position + i, data_.train.size()));
  }
  const Batch samples = data_.train.gather(ids_, buffer_);
  clock_.turn_to(StepClock::Activity::compute);
  const float loss = model_.loss_and_gradients(samples);
  if (!std::isfinite(loss)) fail_diverged();
  optimizer_.apply(*ops_, model_.parameters(), model_.gradients(), state_.optimizer_state,
                   {state_.step, state_.step});
  state_.position += batch;
  ++state_.step;
  clock_.turn_to(StepClock::Activity::other);
  job_.reporter.telemetry().step(state_.step, batch, clock_.take());
  return loss;
}

void SingleTrainer::report(double loss) {
  if (job_.reporter.evaluation_due(state_.step) || state_.step > job_.config.steps) {
    const Evaluation evaluation = model_.evaluate(data_.held_out);
    if (!std::isfinite(evaluation.loss)) fail_diverged();
    job_.reporter.evaluation(evaluation.accuracy);
  }
  job_.reporter.report(state_.step, epoch(), state_.position, loss);
}

ExitCode SingleTrainer::terminate() {
  checkpointer_.save_now(live());
  const bool written = state_.step > 0 && checkpointer_.committed() == state_.step;
  job_.reporter.checkpoint(checkpointer_.committed());
  const std::string message = "terminated after step " + std::to_string(state_.step);
  job_.log.line(message + ", " + (written ? "checkpoint written" : "no checkpoint"));
  job_.reporter.finish(false, message);
  return ExitCode::terminated;
}

ExitCode SingleTrainer::run() {
  const Config& config = job_.config;
  job_.reporter.started(state_.step, state_.position);
  double loss_sum = 0;
  std::uint64_t losses = 0;
  bool reported = false;
  while (state_.step < config.steps) {
    clock_.turn_to(StepClock::Activity::compute);
    if (job_.stop.wait(std::chrono::milliseconds(config.step_delay_ms))) return terminate();
    loss_sum += static_cast<double>(step());
    ++losses;
    if (job_.reporter.due(state_.step)) {
      reported = true;
      report(loss_sum / static_cast<double>(losses));
      loss_sum = 0;
      losses = 0;
    }
    checkpointer_.after_step(live());
    job_.reporter.checkpoint(checkpointer_.committed());
  }
  // A restart after the last step has trained nothing, but its result must say how good the model is.
  if (!reported) report(model_.evaluate(data_.train).loss);
  const std::chrono::seconds patience(config.patience_seconds);
  Checkpointer::Last last;
  while ((last = checkpointer_.last(live(), patience)) == Checkpointer::Last::under_way) {
    if (job_.stop.requested()) return terminate();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (last == Checkpointer::Last::failed) fail_unsaved();
  job_.reporter.checkpoint(checkpointer_.committed());
  job_.reporter.finish(true, "");
  return ExitCode::trained;
}

}  // namespace

ExitCode run_single(Job& job) { return SingleTrainer(job).run(); }

}  // namespace mlk::rt
