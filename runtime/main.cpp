// mlk-runtime: reads where it stands, runs its part of the run, and turns the outcome into an exit code.
#include <chrono>
#include <csignal>
#include <exception>
#include <fcntl.h>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <unistd.h>

#include "runtime/allreduce.h"
#include "runtime/config.h"
#include "runtime/dataset.h"
#include "runtime/exit_code.h"
#include "runtime/freed_memory.h"
#include "runtime/job.h"
#include "runtime/launch_env.h"
#include "runtime/log.h"
#include "runtime/metrics_server.h"
#include "runtime/prometheus.h"
#include "runtime/ps_server.h"
#include "runtime/ps_worker.h"
#include "runtime/reporter.h"
#include "runtime/single.h"
#include "runtime/stop_signal.h"

namespace mlk::rt {
namespace {

constexpr const char* help =
    "usage: mlk-runtime [--help | --version]\n"
    "\n"
    "One process of a training run. It is started by mlk, in a pod or locally, and takes everything from "
    "the\n"
    "environment (MLK_RUN, MLK_ROLE, MLK_RANK, MLK_CONFIG, MLK_DATA, ...): runtime/CONTRACT.md describes "
    "these\n"
    "variables, the configuration, the metrics lines on stdout, the result file and the exit codes.\n";

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

// At the address of the process, so that those of one host do not meet. Null if nobody wants to ask, or if it
// cannot be: the run goes on without.
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

// All processes of the run come to the same number: servers, too, which need nothing else of the data.
void settle_length(Config& config, const LaunchEnv& env, Reporter& reporter, const Log& log) {
  if (config.epochs == 0) return;
  if (env.data.empty())
    throw Failure(ExitCode::bad_configuration,
                  "environment: MLK_DATA is not set, and epochs are counted by it");
  settle_steps(config, count_training_samples(env.data));
  reporter.total_steps(config.steps);
  log.line(std::to_string(config.epochs) + " epochs are " + std::to_string(config.steps) + " steps");
}

// Runs `body`; what it throws is told to people, and to the cluster through the result file.
template <class Body>
ExitCode guarded(const Log& log, Reporter& reporter, Body body) {
  ExitCode code = ExitCode::internal_error;
  std::string message;
  try {
    return body();
  } catch (const Failure& failure) {
    code = failure.code;
    message = failure.what();
  } catch (const std::bad_alloc&) {
    message = "out of memory; a smaller model.hidden or data.batch needs less";
  } catch (const std::exception& error) {
    message = std::string("internal error: ") + error.what();
  }
  log.line(message);
  reporter.finish(false, message);
  return code;
}

ExitCode run() {
  StopSignal stop;
  LaunchEnv env;
  Reporter early(std::cout, result_path_from_env(), rank_from_env());
  const ExitCode environment = guarded(Log("mlk-runtime"), early, [&] {
    env = read_launch_env();
    return ExitCode::trained;
  });
  if (environment != ExitCode::trained) return environment;

  const Log log("mlk-runtime " + env.role + "/" + std::to_string(env.rank));
  Reporter reporter(std::cout, env.result, env.rank);
  return guarded(log, reporter, [&] {
    Config config = load_config(env.config);
    settle_length(config, env, reporter, log);
    if (!env.tensorboard.empty()) reporter.write_events(env.tensorboard, log);
    const auto metrics_server = serve_metrics(env, reporter, log);
    Job job{env, config, stop, reporter, log};
    return run_mode(job);
  });
}

// Whoever starts a process may leave out a standard stream. The next file to be opened would take its place,
// and metrics lines would end up in a checkpoint.
void open_missing_streams() {
  int fd = 0;
  while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO) {
  }
  if (fd > STDERR_FILENO) close(fd);
}

}  // namespace
}  // namespace mlk::rt

int main(int argc, char** argv) {
  const std::string argument = argc > 1 ? argv[1] : "";
  if (argc == 2 && argument == "--version") {
    std::cout << "mlk-runtime " MLK_VERSION "\n";
    return 0;
  }
  if (argc == 2 && argument == "--help") {
    std::cout << mlk::rt::help;
    return 0;
  }
  if (argc > 1) {
    std::cerr << mlk::rt::help;
    return static_cast<int>(mlk::rt::ExitCode::bad_configuration);
  }
  mlk::rt::open_missing_streams();
  mlk::rt::keep_freed_memory();
  // Who reads the logs may go away; the training must not go with them.
  std::signal(SIGPIPE, SIG_IGN);
  // A file that reaches a limit of its size is an error of the write, as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  const mlk::rt::ExitCode code = mlk::rt::run();
  // containerd drops the tail of a log when the process exits right after writing it.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return static_cast<int>(code);
}
