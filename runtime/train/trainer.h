// The model and the data of a worker, and the computations on batches at given positions of the run.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/ops.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/dataset.h"
#include "runtime/launch/job.h"
#include "runtime/metrics/step_clock.h"
#include "runtime/model/model.h"
#include "runtime/model/optimizer.h"

namespace mlk::rt {

class Trainer {
 public:
  // Loads the data and initialises the model. Throws Failure.
  explicit Trainer(const Job& job);

  // Gives the model its initial weights: from the file that the environment names, or else from the seed.
  // Throws Failure.
  void initialise();

  // The mean loss over the samples at [position, position + samples) of the run; model().gradients() becomes
  // their mean gradient. Needs memory for data.micro_batch samples only, or for data.batch samples if
  // micro_batch is 0. Sleeps step_delay_ms first. Throws Failure{diverged} if the loss is NaN or infinite.
  // final: see Model; compute() may call `final` before it finds that the loss is NaN. When compute()
  // returns, the clock counts time as `compute`.
  double compute(std::uint64_t position, std::uint64_t samples, const Model::Final& final = {});

  // Scales model().gradients() to a norm of at most optimizer.clip, if this is above 0. In a run with
  // servers, each worker calls this, since a server has only a part of the gradients. In other runs apply()
  // clips.
  void clip() {
    if (job_.config.optimizer.clip > 0)
      ops_->clip(model_->gradients(), static_cast<float>(job_.config.optimizer.clip));
  }

  // Clips model().gradients(), and applies one update of the model with them. state: see Optimizer::apply.
  void apply(std::span<float> state, const UpdateCount& count) {
    clip();
    const Model::Update update = model_->update();
    optimizer_.apply(*ops_, update.parameters, model_->gradients(), state, count, update.rounded);
  }

  // The number of floats of the optimizer's state.
  std::size_t state_size() const { return optimizer_.slots() * model_->parameters().size(); }

  // A state of the optimizer: zeros.
  kernels::Buffer<float> make_state() { return ops_->allocate<float>(state_size()); }
  // Copies the weights of a checkpoint to the model. If the checkpoint has an optimizer state, also copies
  // this to `state`, which holds zeros before. Throws Failure{checkpoint_unusable} if the optimizer state
  // does not have the size that this optimizer needs.
  void restore(const TrainingState& found, std::span<float> state);

  StepClock& clock() { return clock_; }
  kernels::Ops& ops() { return *ops_; }
  Model& model() { return *model_; }
  const Optimizer& optimizer() const { return optimizer_; }
  const std::vector<TensorInfo>& tensors() const { return model_->tensors(); }
  const DataSplit& data() const { return data_; }
  // The summary by which checkpoints identify the data. Returns nothing if there is no folder for
  // checkpoints.
  std::optional<DataSummary> data_summary() const {
    return job_.env.checkpoints.empty() ? std::nullopt : std::optional(summary_of(data_));
  }
  std::uint64_t epoch_at(std::uint64_t position) const { return position / data_.train->size(); }

 private:
  void watch_device();
  float compute_part(std::uint64_t position, std::uint64_t samples, const Model::Final& final);

  const Job& job_;
  std::unique_ptr<kernels::Ops> ops_;
  DataSplit data_;
  std::unique_ptr<Model> model_;
  Optimizer optimizer_;
  BatchBuffer buffer_;
  std::vector<std::uint64_t> ids_;
  kernels::Buffer<float> earlier_;  // in a step of several parts: the weighted gradients of the parts so far
  StepClock clock_;
  std::chrono::steady_clock::time_point next_look_;  // when to read the GPU's usage again
};

// Makes the reports of the run while this process is the lowest live rank. The step may advance by more than
// 1 between two calls, so a report is due once the step has passed a multiple of report_every.
class RunReports {
 public:
  RunReports(Job& job, Trainer& trainer) : job_(job), trainer_(trainer) {}

  void add_loss(double sum, std::uint64_t count);
  // Call this when the model is at `step`. If an evaluation is due, evaluates. If an evaluation or a report
  // is due, prints a report. With `last`, both are due, unless this step already has them. With `last`,
  // at_step() also logs a sample of the model if the configuration asks for one, and writes the weights to a
  // file if there is a folder for checkpoints. Returns false if the process got a signal to stop during the
  // evaluation.
  bool at_step(std::uint64_t step, std::uint64_t position, std::uint64_t restored_step, bool last);

 private:
  bool report(std::uint64_t step, std::uint64_t position, bool last);
  void show_sample();
  void export_weights();

  Job& job_;
  Trainer& trainer_;
  bool started_ = false, any_ = false;
  std::uint64_t reported_ = 0, evaluated_ = 0;
  double loss_sum_ = 0, last_loss_ = 0;
  std::uint64_t loss_count_ = 0;
};

}  // namespace mlk::rt
