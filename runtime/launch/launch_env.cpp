// Reads the environment. An error names the wrong variable, as nobody can look into a pod that does not
// start.
#include "runtime/launch/launch_env.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "runtime/base/exit_code.h"

namespace mlk::rt {
namespace {

constexpr int highest_rank = 999'999, most_failures = 999'999;

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Failure(ExitCode::bad_configuration, "environment: " + name + " " + what);
}

std::string required(const char* name) {
  std::string value = value_of(name);
  if (value.empty()) refuse(name, "is not set");
  return value;
}

// A whole number with nothing before or after it.
bool parse_number(const std::string& text, int least, int most, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= least && number <= most;
}

// kind: what the number means, for the error message, such as "a rank".
int read_number(const char* name, const std::string& text, const std::string& kind, int least, int most) {
  int number = 0;
  if (!parse_number(text, least, most, number))
    refuse(name, "must be " + kind + " from " + std::to_string(least) + " to " + std::to_string(most) +
                     ", not '" + text + "'");
  return number;
}

void check_address(const char* name, const std::string& address) {
  const std::size_t colon = address.rfind(':');
  int port = 0;
  const std::string host = address.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool host_ok = !host.empty() && (bracketed || host.find_first_of(":[] \t") == std::string::npos);
  if (colon == std::string::npos || !host_ok || !parse_number(address.substr(colon + 1), 1, 65535, port)) {
    refuse(name, "must hold host:port, but has '" + address + "'");
  }
}

std::vector<std::string> read_seeds(const char* name) {
  const std::string list = value_of(name);
  std::vector<std::string> seeds;
  for (std::size_t begin = 0; !list.empty() && begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    seeds.push_back(list.substr(begin, end - begin));
    check_address(name, seeds.back());
    begin = end + 1;
  }
  return seeds;
}

// In a trial, the completion index of the pod is the index of the trial, and the rank must be 0. If a
// template used the completion index as the rank, only the first trial would write a result.
void read_place_in_sweep(LaunchEnv& env) {
  env.points = value_of("MLK_POINTS");
  if (env.points.empty()) return;
  env.trial_index = read_number("MLK_TRIAL_INDEX", required("MLK_TRIAL_INDEX"), "an index", 0, highest_rank);
  if (env.rank != 0) refuse("MLK_RANK", "must be 0 in a trial, not '" + std::to_string(env.rank) + "'");
}

std::string plus_port(const char* name, const std::string& address, int more) {
  const std::size_t colon = address.rfind(':');
  const std::string other =
      address.substr(0, colon + 1) + std::to_string(std::stoi(address.substr(colon + 1)) + more);
  check_address(name, other);
  return other;
}

// Turns the values of the pod into those of this process: a pod with several GPUs has one process per GPU.
void read_place_in_pod(LaunchEnv& env) {
  const std::string gpus = value_of("MLK_GPUS");
  if (!gpus.empty()) env.gpus = read_number("MLK_GPUS", gpus, "a number", 0, most_gpus);
  if (env.gpus < 2) return;
  env.local_rank = read_number("MLK_LOCAL_RANK", value_of("MLK_LOCAL_RANK"), "a rank", 0, env.gpus - 1);
  env.rank = env.rank * env.gpus + env.local_rank;
  if (!env.address.empty()) env.address = plus_port("MLK_ADDRESS", env.address, env.local_rank);
  std::vector<std::string> seeds;
  for (const std::string& pod : env.seeds_worker) {
    for (int process = 0; process < env.gpus; ++process)
      seeds.push_back(plus_port("MLK_SEEDS_WORKER", pod, process));
  }
  env.seeds_worker = std::move(seeds);
  if (env.local_rank > 0) env.metrics_port = 0;
}

}  // namespace

LaunchEnv read_launch_env() {
  LaunchEnv env;
  env.run = required("MLK_RUN");
  env.role = required("MLK_ROLE");
  if (env.role != "worker" && env.role != "server")
    refuse("MLK_ROLE", "must be worker or server, not '" + env.role + "'");
  env.rank = read_number("MLK_RANK", required("MLK_RANK"), "a rank", 0, highest_rank);
  read_place_in_sweep(env);
  env.address = value_of("MLK_ADDRESS");
  if (!env.address.empty()) check_address("MLK_ADDRESS", env.address);
  env.seeds_worker = read_seeds("MLK_SEEDS_WORKER");
  env.seeds_server = read_seeds("MLK_SEEDS_SERVER");
  env.config = required("MLK_CONFIG");
  env.data = env.role == "worker" ? required("MLK_DATA") : value_of("MLK_DATA");
  env.weights = value_of("MLK_WEIGHTS");
  env.checkpoints = value_of("MLK_CHECKPOINTS");
  env.result = result_path_from_env();
  env.secret_path = value_of("MLK_SECRET");
  env.incarnation = value_of("MLK_INCARNATION");
  // Not every cluster sets this variable. Without a valid value the process assumes no failures.
  if (!parse_number(value_of("MLK_FAILURES"), 0, most_failures, env.failures)) env.failures = 0;
  env.tensorboard = value_of("MLK_TENSORBOARD");
  const std::string port = value_of("MLK_METRICS_PORT");
  if (!port.empty()) env.metrics_port = read_number("MLK_METRICS_PORT", port, "a port", 1, 65535);
  const std::string transport = value_of("MLK_TRANSPORT");
  if (!transport.empty() && transport != "tcp")
    refuse("MLK_TRANSPORT", "must be tcp or unset, not '" + transport + "'");
  env.unix_sockets = transport.empty();
  const std::string late = value_of("MLK_LATE_SECONDS");
  if (!late.empty()) env.late_seconds = read_number("MLK_LATE_SECONDS", late, "a number of seconds", 0, 600);
  env.gpu_library = value_of("MLK_GPU_LIBRARY");
  // The variable does not belong to mlk, so a value that is not one number, such as OpenMP's list by level,
  // is ignored.
  if (!parse_number(value_of("OMP_NUM_THREADS"), 1, 4096, env.threads)) env.threads = 1;
  read_place_in_pod(env);
  env.threads = std::max(1, env.threads / std::max(1, env.gpus));
  return env;
}

void require_peers(const LaunchEnv& env, bool with_servers) {
  if (env.address.empty()) refuse("MLK_ADDRESS", "is not set");
  if (env.seeds_worker.empty()) refuse("MLK_SEEDS_WORKER", "is not set");
  if (with_servers && env.seeds_server.empty()) refuse("MLK_SEEDS_SERVER", "is not set");
  if (env.secret_path.empty()) refuse("MLK_SECRET", "is not set");
  if (env.incarnation.empty()) refuse("MLK_INCARNATION", "is not set");
}

std::string result_path_from_env() { return value_of("MLK_RESULT"); }

int rank_from_env() {
  int rank = 0;
  return parse_number(value_of("MLK_RANK"), 0, highest_rank, rank) ? rank : 0;
}

}  // namespace mlk::rt
