// Which checkpoints a process makes of its state, and how a process ends if it finds the last checkpoint.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "kernels/reference/reference_ops.h"
#include "runtime/checkpoint/checkpointer.h"
#include "runtime/train/last_checkpoint.h"
#include "tests/unit/runtime/checkpoint_states.h"
#include "tests/unit/runtime/event_records.h"
#include "tests/unit/runtime/system_calls.h"
#include "tests/unit/runtime/worker_job.h"

TEST_SUITE_BEGIN("runtime/checkpoint/checkpoint_last");

namespace mlk::rt {
namespace {
namespace checkpoint_last {

using namespace test;
namespace fs = std::filesystem;
using Last = Checkpointer::Last;

const std::vector<TensorInfo> hundred = {{"w", {10, 10}, 0, 100}};

struct SmallRun {
  TemporaryFolder folder;
  KeptLog kept;
  LaunchEnv env;
  Config config;
  StopSignal stop;
  std::ostringstream metrics;
  Reporter reporter{metrics, "", 0};
  Job job{env, config, stop, reporter, kept.log()};
  const std::unique_ptr<mlk::kernels::Ops> ops = mlk::kernels::make_reference_ops();

  SmallRun() {
    env.checkpoints = folder / "checkpoints";
    config.steps = 10;
    config.checkpoint = {10, 100};
  }
  CheckpointStore store() const { return CheckpointStore(env.checkpoints, 100, kept.log()); }
  std::set<std::string> names() const {
    std::set<std::string> found;
    if (!fs::exists(env.checkpoints)) return found;
    for (const auto& entry : fs::directory_iterator(env.checkpoints))
      found.insert(entry.path().filename().string());
    return found;
  }
};

LiveState live_of(const TrainingState& state) {
  return {state.step, state.position, state.parameters, state.optimizer_state, state.history};
}

std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

}  // namespace checkpoint_last

TEST_CASE("save_now() saves the whole state: step, position, history, parameters and slots") {
  using namespace checkpoint_last;
  for (const std::size_t slots : {0u, 1u, 2u}) {
    SmallRun run;
    TrainingState state = state_at(7, 100, slots);
    state.history = {3, 640};
    Checkpointer checkpointer(run.job, hundred, *run.ops);
    CHECK(checkpointer.committed() == 0);
    CHECK(checkpointer.save_now(live_of(state)));
    CHECK(checkpointer.committed() == 7);
    Checkpointer next(run.job, hundred, *run.ops);
    const auto restored = next.restore();
    REQUIRE(restored);
    CHECK(next.committed() == 7);
    CHECK(restored->step == 7);
    CHECK(restored->position == 7 * 64);
    CHECK(restored->history == RunHistory{3, 640});
    CHECK(restored->parameters == state.parameters);
    CHECK(restored->optimizer_state == state.optimizer_state);
    CHECK(run.kept.text() == "");
  }
}

TEST_CASE("checkpoints are made at the multiples of the interval, and are not made if the interval is 0") {
  using namespace checkpoint_last;
  SmallRun run;
  const auto train = [&run](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t step = from; step <= to; ++step) {
      Checkpointer checkpointer(run.job, hundred, *run.ops);
      const TrainingState state = state_at(step, 100);
      checkpointer.after_step(live_of(state));
    }  // the destructor waits for the write
  };
  train(1, 9);
  CHECK(run.names().empty());
  train(10, 30);
  CHECK(run.names() == std::set<std::string>{"step-000000000010", "step-000000000020", "step-000000000030"});
  run.config.checkpoint.every = 0;
  train(40, 40);
  CHECK(run.names().size() == 3);
  run.config.checkpoint = {1, 2};
  train(41, 41);
  CHECK(run.names() == std::set<std::string>{"step-000000000030", "step-000000000041"});
}

TEST_CASE("save_now() tries once to write, and logs the reason if this fails") {
  using namespace checkpoint_last;
  SmallRun run;
  write_file(run.env.checkpoints, "a file is in the way");
  Checkpointer checkpointer(run.job, hundred, *run.ops);
  const TrainingState state = state_at(5, 100);
  for (std::size_t tries = 1; tries <= 2; ++tries) {
    CHECK_FALSE(checkpointer.save_now(live_of(state)));
    CHECK(lines_in(run.kept.text()) == tries);
  }
  CHECK(run.kept.text().starts_with("test: warning: no checkpoint of step 5: "));
  fs::remove(run.env.checkpoints);
  CHECK(checkpointer.save_now(live_of(state)));
  CHECK(checkpointer.save_now(live_of(state)));  // this checkpoint exists already
  CHECK(lines_in(run.kept.text()) == 2);
  CHECK(run.names() == std::set<std::string>{"step-000000000005"});
}

TEST_CASE("LastCheckpoint accepts a checkpoint of a step beyond the last step") {
  using namespace checkpoint_last;
  SmallRun run;
  REQUIRE(run.store().save(snapshot_of(state_at(12, 100)), hundred));
  const auto found = LastCheckpoint(run.job).find(hundred);
  REQUIRE(found);
  CHECK(found->step == 12);
  CHECK(found->position == 12 * 64);
  CHECK(LastCheckpoint(run.job).is_there());
  run.config.steps = 13;
  CHECK_FALSE(LastCheckpoint(run.job).find(hundred));
  CHECK_FALSE(LastCheckpoint(run.job).is_there());
}

TEST_CASE("LastCheckpoint::find() logs an unusable checkpoint only once, even if it is called many times") {
  using namespace checkpoint_last;
  using std::chrono::steady_clock, std::chrono::milliseconds;
  SmallRun run;
  REQUIRE(run.store().save(snapshot_of(state_at(9, 100)), hundred));
  fs::create_directory(folder_of_step(run.env.checkpoints, 10));
  LastCheckpoint last(run.job);
  const auto begin = steady_clock::now();
  CHECK_FALSE(last.find(hundred));
  CHECK(lines_in(run.kept.text()) == 1);
  // LastCheckpoint reads the disk again after a second.
  while (steady_clock::now() - begin < milliseconds(1100)) {
    CHECK_FALSE(last.find(hundred));
    std::this_thread::sleep_for(milliseconds(10));
  }
  CHECK(lines_in(run.kept.text()) == 1);
}

TEST_CASE("end_with() reports the values of the last checkpoint, and loads its parameters into the model") {
  using namespace checkpoint_last;
  WorkerJob worker;
  const KeptLog kept;
  worker.env.result = worker.folder / "result";
  worker.config.steps = 10;
  Reporter reporter(worker.metrics, worker.env.result, 1);
  Job job{worker.env, worker.config, worker.stop, reporter, kept.log()};
  Trainer trainer(job);
  const std::size_t before = kept.text().size();
  TrainingState found{12, 250, {}, {}};
  for (const float value : trainer.model().parameters()) found.parameters.push_back(2 * value + 1);
  RunReports reports(job, trainer);
  CHECK(end_with(found, job, trainer, reports) == ExitCode::trained);
  CHECK(kept.text().substr(before) == "test: the run is trained: there is a checkpoint of step 12\n");
  CHECK(std::ranges::equal(trainer.model().parameters(), found.parameters));
  const auto result = nlohmann::json::parse(read_file(worker.env.result));
  CHECK(result["step"] == 12);
  CHECK(result["epoch"] == 2);  // of 100 samples each
  CHECK(result["restored_step"] == 12);
  CHECK(result["checkpoint"] == 12);
  CHECK(result["done"] == true);
  CHECK(result["message"] == "");
}

TEST_CASE("end_with() ends as terminated if a signal comes before the evaluation") {
  using namespace checkpoint_last;
  const TemporaryFolder folder;
  const std::string path = folder / "result";
  CHECK(in_child([&path] {
          WorkerJob worker;
          worker.config.steps = 10;
          Reporter reporter(worker.metrics, path, 1);
          Job job{worker.env, worker.config, worker.stop, reporter, worker.log};
          Trainer trainer(job);
          RunReports reports(job, trainer);
          kill(getpid(), SIGTERM);
          TrainingState found{12, 250, {}, {}};
          for (const float value : trainer.model().parameters()) found.parameters.push_back(value);
          return static_cast<int>(end_with(found, job, trainer, reports));
        }) == 143);
  CHECK(nlohmann::json::parse(read_file(path)) ==
        nlohmann::json{
            {"schema", 1}, {"rank", 1}, {"checkpoint", 12}, {"done", false}, {"message", "terminated"}});
}

}  // namespace
}  // namespace mlk::rt
