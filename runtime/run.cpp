#include "runtime/run.h"

#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "kernels/ops.h"
#include "runtime/base/log.h"
#include "runtime/base/stop_signal.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/data/dataset.h"
#include "runtime/launch/config.h"
#include "runtime/launch/job.h"
#include "runtime/launch/launch_env.h"
#include "runtime/launch/trial.h"
#include "runtime/metrics/metrics_server.h"
#include "runtime/metrics/prometheus.h"
#include "runtime/metrics/reporter.h"
#include "runtime/ps/server.h"
#include "runtime/ps/worker.h"
#include "runtime/train/single.h"

namespace mlk::rt {
namespace {

ExitCode run_mode(Job& job) {
  const bool server = job.env.role == "server";
  if (server && job.config.mode != Mode::ps) {
    throw Failure(ExitCode::bad_configuration,
                  "environment: MLK_ROLE is server, but only mode ps has servers");
  }
  if (job.config.mode == Mode::single) return run_single(job);
  require_peers(job.env, job.config.mode == Mode::ps);
  if (job.config.mode == Mode::allreduce) return run_allreduce(job);
  return server ? run_ps_server(job) : run_ps_worker(job);
}

// Listens at the address of the process, since several processes of one host may use the same port. Returns
// null if no port is configured, or if listening fails: the run continues without metrics.
std::unique_ptr<MetricsServer> serve_metrics(const LaunchEnv& env, Reporter& reporter, const Log& log) {
  if (env.metrics_port == 0) return nullptr;
  HostPort where = parse_host_port(env.address).value_or(HostPort{"127.0.0.1", 0});
  where.port = static_cast<std::uint16_t>(env.metrics_port);
  try {
    return std::make_unique<MetricsServer>(
        where, prometheus_content_type,
        [&telemetry = reporter.telemetry()] { return prometheus_text(telemetry.measurements()); });
  } catch (const std::exception& error) {
    log.line(std::string("metrics: ") + error.what() + "; goes on without");
    return nullptr;
  }
}

// Returns nothing for a process that is no trial.
std::optional<Trial> enter_trial(LaunchEnv& env) {
  if (env.points.empty()) return std::nullopt;
  Trial trial = load_trial(env.points, env.trial_index);
  enter_folders(env, trial);
  return trial;
}

Config config_of(const LaunchEnv& env, const std::optional<Trial>& trial) {
  if (!trial) return load_config(env.config);
  Config config = load_config(env.config, trial->config, "trial " + std::to_string(trial->number));
  if (config.mode != Mode::single)
    throw Failure(ExitCode::bad_configuration,
                  env.config + ": a trial is one process: mode must be \"single\"");
  return config;
}

std::string name_of_process(const LaunchEnv& env, const std::optional<Trial>& trial) {
  return trial ? "mlk-runtime trial " + std::to_string(trial->number)
               : "mlk-runtime " + env.role + "/" + std::to_string(env.rank);
}

// All processes must get the same number of steps. So servers count the samples too, although they do not use
// the data otherwise.
void resolve_length(Config& config, const LaunchEnv& env, Reporter& reporter, const Log& log) {
  if (config.epochs == 0) return;
  if (env.data.empty())
    throw Failure(ExitCode::bad_configuration,
                  "environment: MLK_DATA is not set, and epochs are counted by it");
  resolve_steps(config, count_training_samples(config, env.data));
  reporter.total_steps(config.steps);
  log.line(std::to_string(config.epochs) + " epochs are " + std::to_string(config.steps) + " steps");
}

// Runs `body`. If `body` throws, writes the error to the log, for people, and to the result file, for the
// cluster.
template <class Body>
ExitCode guarded(const Log& log, Reporter& reporter, Body body) {
  ExitCode code = ExitCode::internal_error;
  std::string message;
  try {
    return body();
  } catch (const Failure& failure) {
    code = failure.code;
    message = failure.what();
  } catch (const kernels::DeviceFailure& failure) {
    message = failure.what();
  } catch (const std::bad_alloc&) {
    message = "out of memory; a smaller model or data.micro_batch needs less";
  } catch (const std::exception& error) {
    message = std::string("internal error: ") + error.what();
  }
  log.line(message);
  reporter.finish(false, message);
  return code;
}

}  // namespace

ExitCode run(std::ostream& metrics) {
  StopSignal stop;
  LaunchEnv env;
  std::optional<Trial> trial;
  Reporter early(metrics, result_path_from_env(), rank_from_env());
  const ExitCode environment = guarded(Log("mlk-runtime"), early, [&] {
    env = read_launch_env();
    trial = enter_trial(env);
    return ExitCode::trained;
  });
  if (environment != ExitCode::trained) return environment;

  const Log log(name_of_process(env, trial));
  Reporter reporter(metrics, env.result, env.rank);
  return guarded(log, reporter, [&] {
    if (trial) log.line(trial->values);
    Config config = config_of(env, trial);
    resolve_length(config, env, reporter, log);
    if (!env.tensorboard.empty()) reporter.write_events(env.tensorboard, log);
    if (!env.checkpoints.empty()) reporter.store_curve_in(env.checkpoints);
    const auto metrics_server = serve_metrics(env, reporter, log);
    Job job{env, config, stop, reporter, log};
    return run_mode(job);
  });
}

}  // namespace mlk::rt
