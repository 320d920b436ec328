#include "runtime/train/last_checkpoint.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/runtime/checkpoint_states.h"
#include "tests/unit/runtime/worker_job.h"

TEST_SUITE_BEGIN("runtime/train/last_checkpoint");

using namespace mlk::rt;
using namespace mlk::test;

namespace {

const std::vector<TensorInfo> tensors = {{"w", {10, 10}, 0, 100}};

// A run of ten steps with a folder for checkpoints.
struct TenSteps : WorkerJob {
  TenSteps() {
    env.checkpoints = folder / "checkpoints";
    config.steps = 10;
  }
  void save(std::uint64_t step) {
    REQUIRE(CheckpointStore(env.checkpoints, 9, log).save(snapshot_of(state_at(step, 100)), tensors));
  }
  std::optional<TrainingState> find() { return LastCheckpoint(job).find(tensors); }
  bool is_there() { return LastCheckpoint(job).is_there(); }
};

}  // namespace

TEST_CASE("LastCheckpoint finds a checkpoint of the last step, and ignores checkpoints of earlier steps") {
  TenSteps run;
  CHECK_FALSE(run.find());
  CHECK_FALSE(run.is_there());
  run.save(9);
  CHECK_FALSE(run.find());
  CHECK_FALSE(run.is_there());
  run.save(10);
  REQUIRE(run.find());
  CHECK(run.find()->step == 10);
  CHECK(run.is_there());
  run.env.checkpoints = "";
  CHECK_FALSE(run.find());
  CHECK_FALSE(run.is_there());
}

TEST_CASE("LastCheckpoint returns nothing if the checkpoint of the last step is damaged") {
  TenSteps run;
  run.save(9);
  run.save(10);
  const auto file = folder_of_step(run.env.checkpoints, 10) / "state.safetensors";
  std::string content = read_file(file);
  content.back() = static_cast<char>(content.back() ^ 1);
  write_file(file, content);
  CHECK_FALSE(run.is_there());
  CHECK_FALSE(run.find());
}

TEST_CASE("if a worker finds the last checkpoint, it reports the accuracy and ends as trained") {
  WorkerJob run;
  run.env.checkpoints = run.folder / "checkpoints";
  run.env.result = run.folder / "result";
  run.config.steps = 10;
  Reporter reporter(run.metrics, run.env.result, 1);
  Job job{run.env, run.config, run.stop, reporter, run.log};
  Trainer trainer(job);
  TrainingState state{10, 160, {}, {}};
  for (const float value : trainer.model().parameters()) state.parameters.push_back(value);
  state.optimizer_state.assign(trainer.state_size(), 0);
  REQUIRE(CheckpointStore(run.env.checkpoints, 1, run.log).save(snapshot_of(state), trainer.tensors()));
  const auto found = LastCheckpoint(job).find(trainer.tensors());
  REQUIRE(found);
  RunReports reports(job, trainer);
  CHECK(end_with(*found, job, trainer, reports) == ExitCode::trained);
  const auto result = nlohmann::json::parse(read_file(run.env.result));
  CHECK(result["done"] == true);
  CHECK(result["step"] == 10);
  CHECK(result["checkpoint"] == 10);
  CHECK(result["metrics"].contains("accuracy"));
  CHECK(run.metrics.str().find("mlk step=10 ") != std::string::npos);
}
