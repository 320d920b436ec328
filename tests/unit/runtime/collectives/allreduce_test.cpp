// Whole runs of one to three ranks, compared with one process that trains alone.
#include "runtime/collectives/allreduce.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/runtime/ranks_on_loopback.h"

TEST_SUITE_BEGIN("runtime/collectives/allreduce");

using namespace mlk::rt;
using namespace mlk::test;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// The fields of the lines of a metrics stream, except those that depend on the speed of the machine or of its
// disk.
std::string told(const std::string& metrics) {
  std::istringstream lines(metrics);
  std::string all, line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string word;
    while (words >> word) {
      const std::string name = word.substr(0, word.find('='));
      if (name == "samples_per_s" || name.ends_with("_ms") || name == "slowest" || name == "checkpoint")
        continue;
      all += (all.empty() || all.back() == '\n' ? "" : " ") + (name == "loss" ? name : word);
    }
    all += '\n';
  }
  return all;
}

}  // namespace

TEST_CASE("a run of one rank ends with the same bits and losses as one process alone") {
  LoopbackRun run(1);
  run.config.evaluate_every = 15;
  run.start_all();
  CHECK(run.rank(0).wait() == ExitCode::trained);
  const TrainedAlone alone(run.config, 20);
  CHECK(run.state_text(20) == alone.stage.state_text(20));
  const json result = run.rank(0).result();
  for (const int point : {0, 1, 2}) CHECK(result["curve"][point] == alone.result["curve"][point]);
  CHECK(result["metrics"]["accuracy"] == alone.result["metrics"]["accuracy"]);
  CHECK(told(alone.metrics) ==
        "mlk step=10 epoch=3 loss\n"
        "mlk step=15 epoch=4 loss accuracy=1\n"
        "mlk step=20 epoch=6 loss accuracy=1\n");
  // The accuracy at the end is printed when the last checkpoint is there.
  CHECK(told(run.rank(0).metrics()) ==
        "mlk step=10 epoch=3 loss world=1 generation=1 restarts=0\n"
        "mlk step=15 epoch=4 loss accuracy=1 world=1 generation=1 restarts=0\n"
        "mlk step=20 epoch=6 loss world=1 generation=1 restarts=0\n"
        "mlk step=20 epoch=6 loss accuracy=1 world=1 generation=1 restarts=0\n");
  CHECK(run.rank(0).log().find("rank: generation 1: 1 of 1 workers from step 0\n") != std::string::npos);
}

TEST_CASE("the ranks of a run share the samples of each step, and one rank reports") {
  for (const int workers : {2, 3}) {
    CAPTURE(workers);
    LoopbackRun run(workers);
    run.config.checkpoint = {5, 9};
    run.start_all();
    const TrainedAlone alone(run.config, 20);
    for (int rank = 0; rank < workers; ++rank) {
      CAPTURE(rank);
      CHECK(run.rank(rank).wait() == ExitCode::trained);
      CHECK(run.rank(rank).failure() == "");
    }
    const std::string world = std::to_string(workers);
    const std::string stands = " world=" + world + " generation=1 restarts=0\n";
    CHECK(told(run.rank(0).metrics()) == "mlk step=10 epoch=3 loss" + stands + "mlk step=20 epoch=6 loss" +
                                             stands + "mlk step=20 epoch=6 loss accuracy=1" + stands);
    const json result = run.rank(0).result();
    REQUIRE(result["curve"].size() == 2);
    for (const int point : {0, 1}) {
      const json own = result["curve"][point], expected = alone.result["curve"][point];
      CHECK(own[0] == expected[0]);
      CHECK(own[1].get<double>() == doctest::Approx(expected[1].get<double>()).epsilon(1e-3));
    }
    CHECK(result["done"] == true);
    CHECK(result["message"] == "");
    CHECK(result["checkpoint"] == 20);
    CHECK(result["restored_step"] == 0);
    CHECK(result["metrics"]["world"] == workers);
    CHECK(fs::exists(run.checkpoint(5) / "manifest.json"));
    const TrainingState state = run.state(), expected = alone.stage.state();
    CHECK(state.step == 20);
    CHECK(state.position == expected.position);
    CHECK(state.state_since == 0);
    CHECK(state.history.restarts == 0);
    CHECK(state.history.lost_samples == 0);
    CHECK(farthest(state.parameters, expected.parameters) < 1e-5);
    CHECK(farthest(state.optimizer_state, expected.optimizer_state) < 1e-5);
    for (int rank = 1; rank < workers; ++rank) {
      CAPTURE(rank);
      CHECK(run.rank(rank).metrics() == "");
      CHECK(run.rank(rank).result() == result);
      CHECK(run.rank(rank).log().find("generation 1") == std::string::npos);
      const Measurements own = run.rank(rank).measurements();
      CHECK(own.step == 20);
      CHECK(own.steps == 20);
      CHECK(own.samples == static_cast<std::uint64_t>(20 * run.config.data.batch));
      REQUIRE(own.run);
      CHECK(own.run->workers == static_cast<std::uint32_t>(workers));
      CHECK(own.run->generation == 1);
      CHECK(own.run->restarts == 0);
      CHECK(own.times.compute > 0);
      CHECK(own.times.communication > 0);
      CHECK_FALSE(own.run->slowest);
    }
  }
}

TEST_CASE("each of three ranks computes a whole batch of 7 samples in each step") {
  LoopbackRun run(3);
  run.config.data.batch = 7;
  run.config.steps = 5;
  run.start_all();
  for (const int rank : {0, 1, 2}) {
    CHECK(run.rank(rank).wait() == ExitCode::trained);
    CHECK(run.rank(rank).measurements().samples == 5 * 7);
  }
  CHECK(run.state().position == 5 * 21);
}

TEST_CASE("if two ranks sum gradients in buckets, they get the weights of a single process") {
  LoopbackRun run(2);
  run.config.model.hidden = {560, 560, 560};
  run.config.steps = 3;
  run.start_all();
  const TrainedAlone alone(run.config, 3);
  for (const int rank : {0, 1}) CHECK(run.rank(rank).wait() == ExitCode::trained);
  const TrainingState state = run.state(), expected = alone.stage.state();
  CHECK(farthest(state.parameters, expected.parameters) < 1e-5);
  CHECK(farthest(state.optimizer_state, expected.optimizer_state) < 1e-4);
}

TEST_CASE("if a run continues from a checkpoint, it ends with the same bits as an uninterrupted run") {
  LoopbackRun whole(2), cut(2);
  for (LoopbackRun* run : {&whole, &cut})
    run->config.optimizer = {
        .type = OptimizerType::adam, .lr = 0.01, .schedule = {.type = ScheduleType::constant}};
  cut.config.steps = 12;
  whole.start_all();
  cut.start_all();
  for (const int rank : {0, 1}) {
    CHECK(whole.rank(rank).wait() == ExitCode::trained);
    CHECK(cut.rank(rank).wait() == ExitCode::trained);
  }
  cut.config.steps = 20;
  cut.start_all();
  for (const int rank : {0, 1}) CHECK(cut.rank(rank).wait() == ExitCode::trained);
  CHECK(cut.state_text(20) == whole.state_text(20));
  const json result = cut.rank(0).result();
  CHECK(result["restored_step"] == 12);
  CHECK(result["curve"][0][0] == 20);
  CHECK(cut.rank(0).log().find("rank: goes on from the checkpoint of step 12\n") != std::string::npos);
  CHECK(cut.rank(0).log().find("rank: generation 1: 2 of 2 workers from step 12\n") != std::string::npos);
  CHECK(cut.rank(1).log().find("goes on from") == std::string::npos);
}

TEST_CASE(
    "when a rank comes back after a stop, it receives the state that the other ranks have trained "
    "meanwhile") {
  LoopbackRun run(3);
  run.config.steps = 1'000'000;
  run.config.step_delay_ms = 2;
  run.config.optimizer = {.type = OptimizerType::adam, .lr = 0.001};
  run.config.data.batch = 8;
  run.start_all();
  for (const int rank : {0, 1, 2}) run.rank(rank).reach(3, 3);

  run.rank(2).stop();
  CHECK(run.rank(2).wait() == ExitCode::terminated);
  json last = run.rank(2).result();
  CHECK(last["rank"] == 2);
  CHECK(last["done"] == false);
  CHECK(last["message"] == "terminated after step " + std::to_string(run.rank(2).step()));
  CHECK_FALSE(last.contains("checkpoint"));
  CHECK_FALSE(last.contains("step"));
  run.rank(1).reach(4, 2);

  run.start(2);
  for (const int rank : {0, 1, 2}) run.rank(rank).reach(5, 3);
  CHECK(run.rank(1).measurements().run->generation >= 3);
  CHECK(run.rank(1).measurements().run->restarts == 1);
  CHECK(run.rank(2).measurements().run->restarts == 1);
  CHECK(run.rank(2).metrics() == "");

  // The lowest rank reports and writes the checkpoint. When it stops, the next rank does the same.
  run.rank(0).stop();
  CHECK(run.rank(0).wait() == ExitCode::terminated);
  const std::uint64_t first_end = run.rank(0).step();
  CHECK(run.rank(0).result()["checkpoint"] == first_end);
  CHECK(run.rank(0).result()["message"] == "terminated after step " + std::to_string(first_end));
  CHECK(fs::exists(run.checkpoint(first_end) / "manifest.json"));
  run.rank(1).reach(first_end + 12, 2);
  run.rank(2).stop();
  CHECK(run.rank(2).wait() == ExitCode::terminated);
  CHECK(run.rank(2).metrics() == "");
  run.rank(1).reach(first_end + 13, 1);
  run.rank(1).stop();
  CHECK(run.rank(1).wait() == ExitCode::terminated);
  const std::string told_after = told(run.rank(1).metrics());
  CHECK(told_after.find(" world=2 generation=") != std::string::npos);
  CHECK(told_after.find(" restarts=2\n") != std::string::npos);
  CHECK(run.rank(1).log().find("rank: worker/0 is lost\n") != std::string::npos);
  CHECK(run.rank(1).result()["restored_step"] == 0);

  const TrainingState state = run.state();
  CHECK(state.step == run.rank(1).step());
  CHECK(state.history.restarts == 3);
  const TrainedAlone alone(run.config, state.step);
  const TrainingState expected = alone.stage.state();
  CHECK(state.position == expected.position);
  CHECK(state.state_since == 0);
  CHECK(farthest(state.parameters, expected.parameters) < 2e-3);
  CHECK(farthest(state.optimizer_state, expected.optimizer_state) < 2e-3);

  // After a new start of all ranks the count continues, and the start adds no restart: no rank was lost.
  run.config.steps = state.step + 2;
  run.start_all();
  for (const int rank : {0, 1, 2}) {
    CHECK(run.rank(rank).wait() == ExitCode::trained);
    CHECK(run.rank(rank).measurements().run->restarts == 3);
  }
  CHECK(run.rank(0).result()["restored_step"] == state.step);
}

TEST_CASE("if a rank finds the checkpoint of the last step, it ends as trained without the other ranks") {
  LoopbackRun run(2);
  run.start_all();
  for (const int rank : {0, 1}) CHECK(run.rank(rank).wait() == ExitCode::trained);
  LoopbackRank& again = run.start(1);
  CHECK(again.wait() == ExitCode::trained);
  CHECK(again.log().find("rank: the run is trained: there is a checkpoint of step 20\n") !=
        std::string::npos);
  const json result = again.result();
  CHECK(result["done"] == true);
  CHECK(result["step"] == 20);
  CHECK(result["restored_step"] == 20);
  CHECK(result["checkpoint"] == 20);
  CHECK(told(again.metrics()) == "mlk step=20 epoch=6 loss accuracy=1\n");
}

TEST_CASE("a rank trains to the end even if it has no folder for checkpoints") {
  LoopbackRun run(1);
  LaunchEnv env = run.env(0);
  env.checkpoints = "";
  LoopbackRank rank(env, run.config, run.folder / "log");
  CHECK(rank.wait() == ExitCode::trained);
  CHECK(rank.result()["done"] == true);
  CHECK_FALSE(rank.result().contains("checkpoint"));
}

TEST_CASE("a rank ends before it trains if it cannot write checkpoints") {
  LoopbackRun run(1);
  fs::create_symlink(run.folder / "gone", run.folder / "checkpoints");
  run.start_all();
  CHECK(run.rank(0).wait() == ExitCode::checkpoint_unusable);
  CHECK(run.rank(0).failure().starts_with("checkpoints cannot be written to "));
  CHECK(run.rank(0).metrics().empty());
}

TEST_CASE("all ranks end as diverged if the loss is not a number") {
  LoopbackRun run(2);
  run.config.model.hidden = {8, 8, 8};
  run.config.optimizer = {.lr = 1e6, .momentum = 0.9};
  run.start_all();
  for (const int rank : {0, 1}) {
    CHECK(run.rank(rank).wait() == ExitCode::diverged);
    CHECK((run.rank(rank).failure().starts_with("diverged: ") ||
           run.rank(rank).failure() == "worker/" + std::to_string(1 - rank) + " ended with exit code 66"));
  }
}

TEST_CASE("a rank fails and names the missing ranks if no other rank joins within the patience") {
  LoopbackRun run(4);
  run.config.workers.min = 4;
  run.config.patience_seconds = 0;
  LoopbackRank& rank = run.start(1);
  CHECK(rank.wait() == ExitCode::peers_lost);
  CHECK(rank.failure() == "gave up waiting for worker 0, worker 2, worker 3 (0 s)");
}
