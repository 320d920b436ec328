#include "runtime/checkpoint/checkpointer.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "kernels/reference/reference_ops.h"
#include "tests/unit/runtime/checkpoint_states.h"
#include "tests/unit/runtime/temporary_folder.h"

TEST_SUITE_BEGIN("runtime/checkpoint/checkpointer");

using namespace mlk::rt;
using namespace mlk::test;
namespace fs = std::filesystem;

namespace {

const std::vector<TensorInfo> live_tensors = {{"w", {1000, 1000}, 0, 1000000}};
constexpr std::size_t live_parameters = 1000000;

struct LiveRun {
  TemporaryFolder folder;
  LaunchEnv env;
  Config config;
  StopSignal stop;
  Log log{"test", -1};
  std::ostringstream metrics;
  Reporter reporter{metrics, "", 0};
  Job job{env, config, stop, reporter, log};
  const std::unique_ptr<mlk::kernels::Ops> ops = mlk::kernels::make_reference_ops();

  LiveRun() {
    env.checkpoints = folder / "checkpoints";
    config.checkpoint = {1, 100};
  }
  CheckpointStore store() const { return CheckpointStore(env.checkpoints, 100, log); }
  bool has(std::uint64_t step) const { return fs::exists(folder_of_step(env.checkpoints, step)); }
};

LiveState live(const TrainingState& state) {
  return {state.step, state.position, state.parameters, state.optimizer_state};
}

}  // namespace

TEST_CASE("a checkpoint has the state at its step, even if the state changes during the write") {
  LiveRun run;
  TrainingState state = state_at(1, live_parameters);
  {
    Checkpointer checkpointer(run.job, live_tensors, *run.ops);
    checkpointer.after_step(live(state));
    state = state_at(2, live_parameters);
  }  // the destructor waits for the write
  CHECK(load_and_check(run.store(), live_tensors) == 1);
}

TEST_CASE("if a checkpoint becomes due during a write, it is made from the first state after this write") {
  LiveRun run;
  run.config.checkpoint.every = 10;
  Checkpointer checkpointer(run.job, live_tensors, *run.ops);
  const TrainingState first = state_at(10, live_parameters);
  TrainingState state = state_at(20, live_parameters);
  checkpointer.after_step(live(first));
  checkpointer.after_step(live(state));                // 12 MB are on their way to the disk
  if (checkpointer.committed() == first.step) return;  // the write has ended: nothing was late
  for (state.step = 21; !run.has(10) || checkpointer.committed() < 10; ++state.step) {
    const TrainingState next = state_at(state.step, live_parameters);
    checkpointer.after_step(live(next));
  }
  const std::uint64_t second = state.step - 1;
  const TrainingState last = state_at(second, live_parameters);
  CHECK(checkpointer.save_now(live(last)));
  CHECK_FALSE(run.has(20));
  CHECK(run.has(second));
  CHECK(checkpointer.committed() == second);
  CHECK(load_and_check(run.store(), live_tensors) == second);
}

TEST_CASE("after_step() saves only steps that are due") {
  LiveRun run;
  run.config.checkpoint.every = 10;
  {
    Checkpointer checkpointer(run.job, live_tensors, *run.ops);
    TrainingState state = state_at(10, live_parameters);
    checkpointer.after_step(live(state));
    for (state.step = 11; checkpointer.committed() < 10;
         std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      checkpointer.after_step(live(state));
    for (; state.step < 20; ++state.step) checkpointer.after_step(live(state));
  }  // the destructor waits for the write
  CHECK(run.has(10));
  for (std::uint64_t step = 11; step < 20; ++step) CHECK_FALSE(run.has(step));
}

TEST_CASE("the write of the last checkpoint is repeated until the disk accepts it") {
  LiveRun run;
  write_file(run.env.checkpoints, "a file is in the way");
  Checkpointer checkpointer(run.job, live_tensors, *run.ops);
  const TrainingState state = state_at(5, live_parameters);
  using enum Checkpointer::Last;
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(checkpointer.save_now(live(state)));
  const auto last = [&] { return checkpointer.last(live(state), std::chrono::seconds(600)); };
  CHECK(last() == under_way);
  fs::remove(run.env.checkpoints);
  while (last() == under_way) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(last() == committed);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::seconds(2));  // between two tries
  CHECK(load_and_check(run.store(), live_tensors) == 5);
}

TEST_CASE("last() returns `failed` if no attempt within the patience has succeeded") {
  LiveRun run;
  write_file(run.env.checkpoints, "a file is in the way");
  Checkpointer checkpointer(run.job, live_tensors, *run.ops);
  const TrainingState state = state_at(5, live_parameters);
  Checkpointer::Last outcome;
  while ((outcome = checkpointer.last(live(state), std::chrono::seconds(0))) ==
         Checkpointer::Last::under_way) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(outcome == Checkpointer::Last::failed);
  CHECK(checkpointer.committed() == 0);
}

TEST_CASE("the result contains the first step that could not be saved, until a later save succeeds") {
  LiveRun run;
  const std::string path = run.folder / "result";
  Reporter reporter(run.metrics, path, 0);
  const Job job{run.env, run.config, run.stop, reporter, run.log};
  write_file(run.env.checkpoints, "a file is in the way");
  Checkpointer checkpointer(job, live_tensors, *run.ops);
  const auto result = [&] {
    reporter.finish(false, "");
    std::ifstream file(path);
    return nlohmann::json::parse(file);
  };
  CHECK_FALSE(result().contains("unsaved"));
  CHECK_FALSE(checkpointer.save_now(live(state_at(5, live_parameters))));
  CHECK_FALSE(checkpointer.save_now(live(state_at(6, live_parameters))));
  CHECK(result()["unsaved"] == 5);
  CHECK(result()["unsaved_reason"] == checkpointer.why_unsaved());
  CHECK_FALSE(checkpointer.why_unsaved().empty());
  fs::remove(run.env.checkpoints);
  CHECK(checkpointer.save_now(live(state_at(7, live_parameters))));
  CHECK_FALSE(result().contains("unsaved"));
}

TEST_CASE("while a step is left to train, require_writable() fails if the folder cannot be written") {
  LiveRun run;
  run.config.steps = 9;
  Checkpointer checkpointer(run.job, live_tensors, *run.ops);
  checkpointer.require_writable(0);
  CHECK(fs::is_empty(run.env.checkpoints));  // the file of the try is removed
  fs::remove(run.env.checkpoints);
  write_file(run.env.checkpoints, "a file is in the way");
  checkpointer.require_writable(9);
  try {
    checkpointer.require_writable(8);
    FAIL("it could");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::checkpoint_unusable);
    CHECK(std::string(failure.what()) ==
          "checkpoints cannot be written to " + run.env.checkpoints + ": " + checkpointer.why_unsaved());
  }
}

TEST_CASE("save_now() with a patience tries again until the folder can be written") {
  LiveRun run;
  write_file(run.env.checkpoints, "a file is in the way");
  Checkpointer checkpointer(run.job, live_tensors, *run.ops);
  const TrainingState state = state_at(5, live_parameters);
  CHECK_FALSE(checkpointer.save_now(live(state)));
  std::thread room([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    fs::remove(run.env.checkpoints);
  });
  CHECK(checkpointer.save_now(live(state), std::chrono::seconds(60)));
  room.join();
}

TEST_CASE("without a folder for checkpoints, a Checkpointer writes nothing and waits for nothing") {
  LiveRun run;
  run.env.checkpoints = "";
  Checkpointer checkpointer(run.job, live_tensors, *run.ops);
  const TrainingState state = state_at(5, live_parameters);
  checkpointer.after_step(live(state));
  CHECK(checkpointer.last(live(state), std::chrono::seconds(0)) == Checkpointer::Last::committed);
  CHECK(checkpointer.save_now(live(state)));
  CHECK(checkpointer.committed() == 0);
  CHECK_FALSE(checkpointer.restore());
}

TEST_CASE("save_now() does not write a restored state again") {
  LiveRun run;
  const TrainingState state = state_at(5, live_parameters);
  REQUIRE(run.store().save(snapshot_of(state), live_tensors));
  Checkpointer checkpointer(run.job, live_tensors, *run.ops);
  REQUIRE(checkpointer.restore());
  CHECK(checkpointer.committed() == 5);
  write_file(folder_of_step(run.env.checkpoints, 5) / "mine", "");
  CHECK(checkpointer.save_now(live(state)));
  CHECK(fs::exists(folder_of_step(run.env.checkpoints, 5) / "mine"));
}
