// Whole ranks of an allreduce run, each in a thread of the test, connected over loopback.
#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <optional>
#include <pthread.h>
#include <span>
#include <sstream>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "kernels/reference/reference_ops.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/train/single.h"
#include "tests/unit/runtime/idx_files.h"

namespace mlk::test {

inline constexpr std::chrono::seconds rank_patience{30};

// An address with a port that was free a moment ago. Hardly any other program uses this host of the loopback
// network, so the port stays free.
inline std::string free_address() {
  const auto process = static_cast<unsigned>(getpid());
  const std::string host = "127." + std::to_string(1 + process % 250) + "." +
                           std::to_string(process / 250 % 250) + "." +
                           std::to_string(1 + process / 62500 % 250);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(fd >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  REQUIRE(inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1);
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  socklen_t size = sizeof address;
  REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(fd);
  return host + ":" + std::to_string(ntohs(address.sin_port));
}

inline std::string key_of_ranks() { return std::string(64, 'a'); }

inline bool holds_in_time(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + rank_patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// One process of the run, in a thread. A SIGTERM to the thread stops the rank as a SIGTERM stops a process.
class LoopbackRank {
 public:
  LoopbackRank(rt::LaunchEnv env, const rt::Config& config, const std::string& log_path)
      : env_(std::move(env)),
        config_(config),
        log_path_(log_path),
        log_fd_(open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)),
        log_("rank", log_fd_),
        reporter_(metrics_, env_.result, env_.rank) {
    thread_ = std::thread([this] { run(); });
  }
  ~LoopbackRank() {
    if (thread_.joinable()) {
      stop();
      thread_.join();
    }
    close(log_fd_);
  }
  LoopbackRank(const LoopbackRank&) = delete;
  LoopbackRank& operator=(const LoopbackRank&) = delete;

  // Sends SIGTERM to the thread of this rank only.
  void stop() { pthread_kill(thread_.native_handle(), SIGTERM); }
  // Returns the exit code of the rank, also if it ended with a Failure.
  rt::ExitCode wait() {
    if (thread_.joinable()) thread_.join();
    return code_;
  }
  const std::string& failure() const { return failure_; }
  std::string metrics() const { return metrics_.str(); }
  std::string log() const { return read_file(log_path_); }
  nlohmann::json result() const { return nlohmann::json::parse(read_file(env_.result)); }

  rt::Measurements measurements() { return reporter_.telemetry().measurements(); }
  std::uint64_t step() { return measurements().step.value_or(0); }
  std::uint32_t world() { return measurements().run.value_or(rt::RunView()).workers; }
  void reach(std::uint64_t step_wanted, std::uint32_t world_wanted) {
    REQUIRE(holds_in_time([&] { return step() >= step_wanted && world() == world_wanted; }));
  }

 private:
  void run() {
    rt::Job job{env_, config_, stop_, reporter_, log_};
    try {
      code_ = rt::run_allreduce(job);
    } catch (const rt::Failure& failure) {
      code_ = failure.code;
      failure_ = failure.what();
    } catch (const std::exception& error) {
      failure_ = std::string("internal error: ") + error.what();
    }
  }

  const rt::LaunchEnv env_;
  const rt::Config config_;
  const std::string log_path_;
  const int log_fd_;
  rt::StopSignal stop_;
  rt::Log log_;
  std::ostringstream metrics_;
  rt::Reporter reporter_;
  rt::ExitCode code_ = rt::ExitCode::internal_error;
  std::string failure_;
  std::thread thread_;
};

// A run on the learnable data. A step has 32 samples, however many ranks share them.
struct LoopbackRun {
  TemporaryFolder folder;
  rt::Config config;
  std::vector<std::string> addresses;
  int incarnations = 0;
  std::vector<std::unique_ptr<LoopbackRank>> ranks;

  explicit LoopbackRun(int workers) : ranks(static_cast<std::size_t>(workers)) {
    write_learnable(folder.path());
    write_file(folder / "key", key_of_ranks());
    for (int rank = 0; rank < workers; ++rank) addresses.push_back(free_address());
    config.mode = rt::Mode::allreduce;
    config.workers = {workers, 1};
    config.model.hidden = {8};
    config.data.batch = 32 / workers;
    config.optimizer = {.lr = 0.1, .momentum = 0.9};
    config.steps = 20;
    config.seed = 1;
    config.report_every = 10;
    config.checkpoint = {0, 3};
    config.patience_seconds = 60;
  }

  rt::LaunchEnv env(int rank) {
    rt::LaunchEnv env;
    env.run = "run";
    env.role = "worker";
    env.rank = rank;
    env.address = addresses[static_cast<std::size_t>(rank)];
    env.seeds_worker = addresses;
    env.data = folder.path().string();
    env.checkpoints = folder / "checkpoints";
    env.result = folder / ("result-" + std::to_string(rank));
    env.secret_path = folder / "key";
    env.incarnation = "incarnation " + std::to_string(++incarnations);
    return env;
  }
  LoopbackRank& start(int rank) {
    const auto log = folder / ("log-" + std::to_string(++logs_));
    auto& place = ranks[static_cast<std::size_t>(rank)];
    place.reset();
    place = std::make_unique<LoopbackRank>(env(rank), config, log);
    return *place;
  }
  void start_all() {
    for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) start(rank);
  }
  LoopbackRank& rank(int rank) { return *ranks[static_cast<std::size_t>(rank)]; }

  std::filesystem::path checkpoint(std::uint64_t step) const {
    char name[32];
    std::snprintf(name, sizeof name, "step-%012lu", static_cast<unsigned long>(step));
    return folder.path() / "checkpoints" / name;
  }
  std::string state_text(std::uint64_t step) const {
    return read_file(checkpoint(step) / "state.safetensors");
  }
  // The newest checkpoint.
  rt::TrainingState state() const {
    const rt::Log log("test", -1);
    const auto ops = kernels::make_reference_ops();
    const auto model = rt::make_model(config.model, {16, 3}, 1, *ops);
    auto found = rt::CheckpointStore(folder / "checkpoints", 3, log).load_newest(model->tensors());
    REQUIRE(found);
    return std::move(*found);
  }

 private:
  int logs_ = 0;
};

// One process that trains alone for so many steps on the same samples, and its checkpoint.
struct TrainedAlone {
  LoopbackRun stage{1};
  std::string metrics;
  nlohmann::json result;

  TrainedAlone(const rt::Config& config, std::uint64_t steps) {
    stage.config = config;
    stage.config.mode = rt::Mode::single;
    stage.config.data.batch = config.data.batch * config.workers.count;
    stage.config.steps = steps;
    stage.config.step_delay_ms = 0;
    stage.config.workers = {1, 1};
    const rt::LaunchEnv env = stage.env(0);
    rt::StopSignal stop;
    const rt::Log log("test", -1);
    std::ostringstream lines;
    rt::Reporter reporter(lines, env.result, 0);
    rt::Job job{env, stage.config, stop, reporter, log};
    REQUIRE(rt::run_single(job) == rt::ExitCode::trained);
    metrics = lines.str();
    result = nlohmann::json::parse(read_file(env.result));
  }
};

// The largest difference between two numbers at the same index. Infinite if the sizes differ.
inline double farthest(std::span<const float> one, std::span<const float> other) {
  if (one.size() != other.size() || one.empty()) return HUGE_VAL;
  double most = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(one[i]) - static_cast<double>(other[i])));
  return most;
}

}  // namespace mlk::test
