// What a checkpoint costs: the time that training stands still for it beside a copy of the same state, and
// the time until it is committed. Prints "stall_ms copy_ms commit_ms" for each repetition.
//   bench_checkpoint FOLDER MILLIONS_OF_PARAMETERS REPETITIONS
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

#include "kernels/reference/reference_ops.h"
#include "runtime/checkpoint/checkpointer.h"

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto parameters = static_cast<std::size_t>(std::atoll(argv[2])) * 1'000'000;
  mlk::rt::LaunchEnv env;
  env.checkpoints = argv[1];
  mlk::rt::Config config;
  config.checkpoint = {1, 9};  // keeps all: what removing takes is not told apart
  mlk::rt::StopSignal stop;
  const mlk::rt::Log log("bench_checkpoint");
  mlk::rt::Reporter reporter(std::cout, "", 0);
  const mlk::rt::Job job{env, config, stop, reporter, log};
  const std::vector<mlk::rt::TensorInfo> tensors = {
      {"w", {static_cast<std::int64_t>(parameters)}, 0, parameters}};

  const std::vector<float> weights(parameters, 0.5f), state(parameters, 0.25f);
  // The second one is written to once for each checkpoint, as the checkpointer's own copy is: what neither
  // has in the cache costs both alike.
  std::vector<float> warm(2 * parameters), copied(2 * parameters);
  const auto copy_state = [&](std::vector<float>& target) {
    std::memcpy(target.data(), weights.data(), parameters * sizeof(float));
    std::memcpy(target.data() + parameters, state.data(), parameters * sizeof(float));
  };
  const auto ops = mlk::kernels::make_reference_ops();
  mlk::rt::Checkpointer checkpointer(job, tensors, *ops);
  const int repetitions = std::atoi(argv[3]);
  for (std::uint64_t step = 1; step <= static_cast<std::uint64_t>(repetitions) + 1; ++step) {
    const mlk::rt::LiveState live{step, step, weights, state};
    copy_state(warm);  // the optimizer has just been over the state, in both cases
    const auto copy_start = Clock::now();
    copy_state(copied);
    const double copy = milliseconds_since(copy_start);
    copy_state(warm);
    const auto start = Clock::now();
    checkpointer.after_step(live);
    const double stall = milliseconds_since(start);
    if (!checkpointer.save_now(live)) return 1;
    const double committed = milliseconds_since(start);
    // The first one takes its memory from the system.
    if (step > 1) std::printf("%.6f %.6f %.6f\n", stall, copy, committed);
  }
  return copied[parameters - 1] == 0.5f && warm[parameters - 1] == 0.5f ? 0 : 1;
}
