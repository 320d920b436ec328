// Batches, losses and reports of a worker.
#include "runtime/train/trainer.h"

#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/device/device_ops.h"
#include "runtime/base/exit_code.h"
#include "runtime/checkpoint/weights_file.h"
#include "runtime/data/sampler.h"
#include "runtime/model/gpt.h"
#include "runtime/model/sampling.h"
#include "runtime/train/peak_flops.h"

namespace mlk::rt {
namespace {

// Returns the library that the environment names, or else the library beside the program, or else the name
// under which the loader looks for it.
std::string gpu_library(const LaunchEnv& env) {
  const std::string name = "libmlk-cuda.so";
  if (!env.gpu_library.empty()) return env.gpu_library;
  std::error_code error;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / name;
  return std::filesystem::exists(beside, error) ? beside.string() : name;
}

std::unique_ptr<kernels::Ops> make_ops(const Job& job) {
  if (job.env.gpus == 0) return kernels::make_cpu_ops(job.env.threads, job.config.precision);
  auto ops = kernels::make_device_ops(kernels::load_plugin(gpu_library(job.env)), job.env.local_rank,
                                      job.config.precision);
  job.log.line("computes on " + std::string(ops->name()));
  return ops;
}

// ", 10 classes of 8 x 8"; empty for tokens.
std::string describe_classes(const SampleShape& shape) {
  if (shape.image.height == 0) return "";
  const auto& image = shape.image;
  return ", " + std::to_string(shape.classes) + " classes of " + std::to_string(image.height) + " x " +
         std::to_string(image.width) + (image.channels > 1 ? " x " + std::to_string(image.channels) : "");
}

}  // namespace

Trainer::Trainer(const Job& job)
    : job_(job),
      ops_(make_ops(job)),
      data_(load_data(job.config, job.env.data)),
      model_(make_model(job.config.model, data_.train->shape(), job.config.seed, *ops_)),
      optimizer_(job.config.optimizer, job.config.steps),
      buffer_(*ops_) {
  if (!job.env.weights.empty()) {
    initialise();
    job.log.line("begins with the weights in " + job.env.weights);
  }
  if (const int labels = data_.train->shape().labels; labels > 1) job.reporter.tokens_of_sample(labels);
  if (const auto peak = peak_flops(ops_->name(), job.config.precision); peak && job.env.gpus > 0)
    job.reporter.peak_seconds_of_sample(model_->training_flops() / *peak);
  job.log.line(std::to_string(data_.train->size()) + " samples to train on, " +
               std::to_string(data_.held_out->size()) + " held out, " +
               std::to_string(model_->parameters().size()) + " parameters" +
               describe_classes(data_.train->shape()));
  if (!data_.warning.empty()) job.log.line("warning: " + data_.warning);
  if (const std::string beyond = step_beyond_data(job.config, data_.train->size()); !beyond.empty())
    job.log.line("warning: " + beyond);
  if (job.env.gpus == 0 && job.config.precision == kernels::Precision::bfloat16 &&
      !kernels::multiplies_bfloat16())
    job.log.line("this processor does not multiply bfloat16: imitated, no faster than float32");
}

void Trainer::initialise() {
  if (job_.env.weights.empty()) {
    model_->initialise(job_.config.seed);
  } else {
    ops_->write(read_weights(job_.env.weights, job_.config.model, model_->tensors()), model_->parameters());
  }
}

void Trainer::restore(const TrainingState& found, std::span<float> state) {
  optimizer_.check_fits(found.optimizer_state, found.parameters.size());
  ops_->write(found.parameters, model_->parameters());
  ops_->write(found.optimizer_state, state.first(found.optimizer_state.size()));
}

void Trainer::watch_device() {
  constexpr std::chrono::seconds interval{1};
  if (job_.env.gpus == 0 || std::chrono::steady_clock::now() < next_look_) return;
  const kernels::DeviceUsage usage = ops_->usage();
  job_.reporter.telemetry().gpu({usage.utilisation, usage.memory_bytes, usage.watts});
  next_look_ = std::chrono::steady_clock::now() + interval;
}

double Trainer::compute(std::uint64_t position, std::uint64_t samples, const Model::Final& final) {
  watch_device();
  clock_.turn_to(StepClock::Activity::compute);
  if (job_.config.step_delay_ms > 0) job_.stop.wait(std::chrono::milliseconds(job_.config.step_delay_ms));
  // When workers are lost, the other workers also compute the samples of the lost workers. So a worker may
  // get more samples than its memory allows, and computes them in parts.
  const DataConfig& data = job_.config.data;
  const auto most = static_cast<std::uint64_t>(data.micro_batch > 0 ? data.micro_batch : data.batch);
  const std::uint64_t parts = (samples + most - 1) / most;
  const auto gradients = model_->gradients();
  if (parts > 1 && earlier_.empty()) earlier_ = ops_->allocate<float>(gradients.size());
  if (parts > 1) ops_->scale(0, earlier_, earlier_);
  double loss = 0;
  for (std::uint64_t part = 0; part < parts; ++part) {
    const std::uint64_t begin = samples * part / parts, end = samples * (part + 1) / parts;
    const double share = static_cast<double>(end - begin) / static_cast<double>(samples);
    const bool last = part + 1 == parts;
    std::size_t added_from = gradients.size();
    const auto add = [&](std::size_t from) {
      const auto part_of = [&](std::span<float> all) { return all.subspan(from, added_from - from); };
      ops_->add_scaled(part_of(earlier_), static_cast<float>(share), part_of(gradients),
                       part_of(last ? gradients : std::span<float>(earlier_)));
      added_from = from;
      if (last && final) final(from);
    };
    loss += share * static_cast<double>(compute_part(position + begin, end - begin, parts > 1 ? add : final));
  }
  if (!std::isfinite(loss)) {
    throw Failure(ExitCode::diverged, "diverged: the loss is not a number; a smaller optimizer.lr may help");
  }
  return loss;
}

float Trainer::compute_part(std::uint64_t position, std::uint64_t samples, const Model::Final& final) {
  // This thread gathers its batches itself, because gathering takes at most 5 % of a step, and a handover
  // from another thread took longer.
  clock_.turn_to(StepClock::Activity::data);
  ids_.clear();
  for (std::uint64_t i = 0; i < samples; ++i) {
    ids_.push_back(sample_at(job_.config.seed, position + i, data_.train->size()));
  }
  Batch batch = data_.train->gather(ids_, buffer_);
  batch.dropout = {static_cast<float>(job_.config.model.dropout), job_.config.seed, position};
  clock_.turn_to(StepClock::Activity::compute);
  return model_->loss_and_gradients(batch, final);
}

void RunReports::add_loss(double sum, std::uint64_t count) {
  loss_sum_ += sum;
  loss_count_ += count;
}

bool RunReports::at_step(std::uint64_t step, std::uint64_t position, std::uint64_t restored_step, bool last) {
  if (!started_) {
    started_ = true;
    job_.reporter.started(restored_step, position, step);
    reported_ = evaluated_ = step;
  }
  if (!report(step, position, last)) return false;
  if (last) {
    show_sample();
    export_weights();
  }
  return true;
}

bool RunReports::report(std::uint64_t step, std::uint64_t position, bool last) {
  const auto passed = [step](std::uint64_t every, std::uint64_t before) {
    return every != 0 && step / every > before / every;
  };
  const bool due = passed(job_.config.report_every, reported_) || (last && (!any_ || reported_ != step));
  const bool evaluate =
      passed(job_.config.evaluate_every, evaluated_) || (last && (!any_ || evaluated_ != step));
  if (!due && !evaluate) return true;
  if (evaluate) {
    const auto evaluation =
        trainer_.model().evaluate(*trainer_.data().held_out, [this] { return job_.stop.requested(); });
    if (!evaluation) return false;
    if (!std::isfinite(evaluation->loss)) {
      throw Failure(ExitCode::diverged, "diverged: the loss on the held-out set is not a number");
    }
    const bool tokens = trainer_.data().held_out->shape().labels > 1;
    job_.reporter.evaluation(evaluation->accuracy, tokens ? std::optional(evaluation->loss) : std::nullopt);
    evaluated_ = step;
    if (!any_ && loss_count_ == 0) last_loss_ = evaluation->loss;  // no step was trained in this process
  }
  if (loss_count_ > 0) last_loss_ = loss_sum_ / static_cast<double>(loss_count_);
  loss_sum_ = 0;
  loss_count_ = 0;
  job_.reporter.report(step, trainer_.epoch_at(position), position, last_loss_);
  reported_ = step;
  any_ = true;
  return true;
}

void RunReports::show_sample() {
  const Config& config = job_.config;
  auto* const model = dynamic_cast<Gpt*>(&trainer_.model());
  if (!model || config.sample.tokens == 0) return;
  const auto tokens = sample_tokens(*model, first_token(config.data), config.sample, config.seed,
                                    [this] { return job_.stop.requested(); });
  job_.log.line("sample: " + shown_tokens(tokens, config.data.format));
}

// If the weights cannot be written, logs only a warning, because the last checkpoint has these weights too.
void RunReports::export_weights() {
  if (job_.env.checkpoints.empty()) return;
  const std::string folder = job_.env.checkpoints + "/model";
  try {
    write_weights(folder, job_.config.model, trainer_.tensors(),
                  trainer_.ops().read(trainer_.model().parameters()));
  } catch (const std::exception& error) {
    job_.log.line("warning: the trained weights are not in " + folder + ": " + error.what());
  }
}

}  // namespace mlk::rt
