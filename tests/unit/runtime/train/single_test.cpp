#include "runtime/train/single.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <set>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "kernels/reference/reference_ops.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tests/unit/runtime/idx_files.h"
#include "tests/unit/runtime/tokens.h"

TEST_SUITE_BEGIN("runtime/train/single");

using namespace mlk::rt;
using namespace mlk::test;
namespace fs = std::filesystem;

namespace {

// A run of mode single on the learnable data. A test may run several processes of it, one after the other.
struct Training {
  TemporaryFolder folder;
  LaunchEnv env;
  Config config;
  StopSignal stop;
  Log log{"test", -1};
  std::ostringstream metrics;

  Training() {
    write_learnable(folder.path());
    env.run = "run";
    env.role = "worker";
    env.data = folder.path().string();
    env.checkpoints = folder / "checkpoints";
    env.result = folder / "result";
    config.model.hidden = {8};
    config.data.batch = 16;
    config.optimizer = {.lr = 0.1, .momentum = 0.9};
    config.steps = 200;
    config.seed = 1;
    config.report_every = 50;
    config.checkpoint = {0, 3};
  }

  ExitCode run() {
    metrics.str("");
    Reporter reporter(metrics, env.result, 0);
    reporter.store_curve_in(env.checkpoints);
    Job job{env, config, stop, reporter, log};
    return run_single(job);
  }

  nlohmann::json result() const { return nlohmann::json::parse(read_file(env.result)); }
  std::string state() const {
    return read_file(folder.path() / "checkpoints" / "step-000000000200" / "state.safetensors");
  }
};

}  // namespace

TEST_CASE("a run of one process trains, reports, evaluates and leaves its last checkpoint") {
  Training bench;
  bench.config.evaluate_every = 120;
  CHECK(bench.run() == ExitCode::trained);
  const auto result = bench.result();
  CHECK(result["done"] == true);
  CHECK(result["step"] == 200);
  CHECK(result["epoch"] == 200 * 16 / 100);
  CHECK(result["metrics"]["accuracy"] == 1);
  CHECK(result["metrics"]["loss"] < 0.1);
  CHECK(result["restored_step"] == 0);
  CHECK(result["curve"].size() == 5);  // 50, 100, 120, 150, 200
  CHECK(std::ranges::count(bench.metrics.str(), '\n') == 5);
  CHECK(bench.metrics.str().starts_with("mlk step=50 epoch=8 loss="));
  CHECK(result["checkpoint"] == 200);
  CHECK(fs::exists(bench.folder.path() / "checkpoints" / "step-000000000200" / "manifest.json"));
}

TEST_CASE("a run without a folder for checkpoints still trains") {
  Training bench;
  bench.env.checkpoints = "";
  bench.config.checkpoint.every = 10;
  CHECK(bench.run() == ExitCode::trained);
  CHECK_FALSE(fs::exists("step-000000000200"));
  CHECK_FALSE(bench.result().contains("checkpoint"));
}

TEST_CASE("a run that is interrupted and resumed ends with the same bits as an uninterrupted run") {
  Training whole, cut;
  whole.config.checkpoint.every = cut.config.checkpoint.every = 30;
  REQUIRE(whole.run() == ExitCode::trained);
  const std::uint64_t steps = cut.config.steps;
  cut.config.steps = 70;
  REQUIRE(cut.run() == ExitCode::trained);
  // Imitates a kill at step 70: the last checkpoint is from an earlier step.
  fs::remove_all(cut.folder.path() / "checkpoints" / "step-000000000070");
  cut.config.steps = steps;
  REQUIRE(cut.run() == ExitCode::trained);
  CHECK(cut.result()["restored_step"] >= 30);
  CHECK(cut.result()["restored_step"] < 70);
  CHECK(cut.state() == whole.state());
}

TEST_CASE("a run fails if its data differ from the data of its checkpoint") {
  Training bench;
  bench.config.steps = 100;
  REQUIRE(bench.run() == ExitCode::trained);
  bench.config.steps = 200;
  const std::string path = bench.folder / train_labels, labels = read_file(path);
  std::string others = labels;
  for (std::size_t i = 8; i < others.size(); ++i) others[i] = static_cast<char>((others[i] + 1) % 3);
  write_file(path, others);
  try {
    bench.run();
    FAIL("trained");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::bad_data);
    CHECK(std::string(failure.what())
              .starts_with(bench.env.data + ": this is not the data that the checkpoint of "
                                            "step 100 was trained with: 100 samples to train on, as before"));
  }
  SUBCASE("the run continues with the data of the checkpoint") {
    write_file(path, labels);
    CHECK(bench.run() == ExitCode::trained);
  }
  SUBCASE("the run continues with other data if the checkpoint has no summary of its data") {
    const std::string manifest = bench.folder / "checkpoints/step-000000000100/manifest.json";
    auto json = nlohmann::json::parse(read_file(manifest));
    REQUIRE(json.erase("data") == 1);
    write_file(manifest, json.dump());
    CHECK(bench.run() == ExitCode::trained);
  }
}

TEST_CASE("the curve of a resumed run covers the whole run") {
  Training bench;
  bench.config.steps = 100;
  REQUIRE(bench.run() == ExitCode::trained);
  const auto first = bench.result()["curve"];
  REQUIRE(first.size() == 2);
  bench.config.steps = 200;
  REQUIRE(bench.run() == ExitCode::trained);
  const auto curve = bench.result()["curve"];
  REQUIRE(curve.size() == 4);
  CHECK(curve[0][0] == 50);
  CHECK(curve[1][0] == 100);
  CHECK(curve[0][1] == first[0][1]);
  CHECK(curve[3][0] == 200);
  REQUIRE(bench.run() == ExitCode::trained);  // trains nothing
  CHECK(bench.result()["curve"] == curve);
}

TEST_CASE("a trained run that is started again reports its accuracy again, and makes no steps") {
  Training bench;
  REQUIRE(bench.run() == ExitCode::trained);
  const std::string state = bench.state();
  REQUIRE(bench.run() == ExitCode::trained);
  CHECK(bench.state() == state);
  const auto result = bench.result();
  CHECK(result["done"] == true);
  CHECK(result["restored_step"] == 200);
  CHECK(result["metrics"]["accuracy"] == 1);
  CHECK(std::ranges::count(bench.metrics.str(), '\n') == 1);
}

TEST_CASE(
    "SIGTERM ends a run after its current step, and the next run continues from a checkpoint of that step") {
  const ScheduleConfig cosine{.type = ScheduleType::cosine, .warmup = 20};
  OptimizerConfig optimizer{.lr = 0.1, .momentum = 0.9};
  SUBCASE("sgd") {}
  SUBCASE("adamw on a schedule") {
    optimizer = {.type = OptimizerType::adamw, .lr = 0.01, .weight_decay = 0.01, .schedule = cosine};
  }
  Training whole, cut;
  whole.config.optimizer = cut.config.optimizer = optimizer;
  REQUIRE(whole.run() == ExitCode::trained);
  cut.config.report_every = 1;
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    cut.config.step_delay_ms = 1;
    _exit(static_cast<int>(cut.run()));
  }
  while (!fs::exists(cut.env.result) || fs::file_size(cut.env.result) == 0) usleep(1000);
  kill(child, SIGTERM);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 143);
  auto result = cut.result();
  const std::uint64_t stopped = result["step"];
  CHECK(result["done"] == false);
  CHECK(result["message"] == "terminated after step " + std::to_string(stopped));
  cut.config.step_delay_ms = 0;
  REQUIRE(cut.run() == ExitCode::trained);
  CHECK(cut.result()["restored_step"] == stopped);
  CHECK(cut.state() == whole.state());
}

TEST_CASE(
    "a GPT that is stopped and resumed from its checkpoint ends with the bits of an uninterrupted GPT") {
  Training whole, cut;
  for (Training* each : {&whole, &cut}) {
    write_file(each->folder / "train.txt", text_of_a_grammar(20'000));
    each->config.model = {.type = ModelType::gpt, .layers = 2, .width = 16, .heads = 2, .context = 16};
    each->config.data = {.batch = 4, .format = DataFormat::text};
    each->config.optimizer = {.type = OptimizerType::adamw,
                              .lr = 0.01,
                              .weight_decay = 0.1,
                              .clip = 1,
                              .schedule = {.type = ScheduleType::cosine, .warmup = 20, .final = 0.1}};
  }
  REQUIRE(whole.run() == ExitCode::trained);
  CHECK(whole.metrics.str().find(" held_out_loss=") != std::string::npos);
  CHECK(whole.result()["metrics"]["held_out_loss"] < 2.5);
  // The same run again, with a checkpoint of step 90, from which its last part is repeated below.
  cut.config.checkpoint = {90, 3};
  REQUIRE(cut.run() == ExitCode::trained);
  // If the disk is slow, the first checkpoint may be of a later step than 90, so all later ones are removed.
  std::set<fs::path> saved;
  for (const auto& entry : fs::directory_iterator(cut.folder.path() / "checkpoints"))
    if (entry.path().filename().string().starts_with("step-")) saved.insert(entry.path());
  REQUIRE(saved.size() > 1);
  for (auto later = std::next(saved.begin()); later != saved.end(); ++later) fs::remove_all(*later);
  REQUIRE(cut.run() == ExitCode::trained);
  CHECK(cut.result()["restored_step"] >= 90);
  CHECK(cut.result()["restored_step"] < 200);
  CHECK(cut.state() == whole.state());
}

TEST_CASE("SIGTERM interrupts an evaluation that takes longer than the grace period of a pod") {
  Training bench;
  const std::uint32_t held_out = 800'000;  // a minute's work
  write_file(bench.folder.path() / held_out_images,
             idx_header({held_out, 4, 4}) + std::string(std::size_t{16} * held_out, '\1'));
  write_file(bench.folder.path() / held_out_labels, idx_header({held_out}) + std::string(held_out, '\0'));
  bench.config.model.hidden = {2048, 2048};
  bench.config.evaluate_every = 1;
  bench.config.checkpoint.every = 1;
  const fs::path first = bench.folder.path() / "checkpoints" / "step-000000000001";
  SUBCASE("in the middle of the run") {}
  SUBCASE("at the end of the run") { bench.config.steps = 1; }
  const pid_t child = fork();
  if (child == 0) {
    alarm(45);
    _exit(static_cast<int>(bench.run()));
  }
  int status = 0;
  while (!fs::exists(first) && waitpid(child, &status, WNOHANG) == 0) usleep(1000);
  kill(child, SIGTERM);
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 143);
  CHECK(bench.result()["done"] == false);
  CHECK(bench.result()["message"] == "terminated after step 1");
}

TEST_CASE(
    "if a run continues late in training without Adam's state, its first update is as long as in a new run") {
  Training bench;
  bench.config.optimizer = {.type = OptimizerType::adam, .lr = 0.001};
  REQUIRE(bench.run() == ExitCode::trained);
  const CheckpointStore store(bench.env.checkpoints, 3, bench.log);
  const auto ops = mlk::kernels::make_reference_ops();
  const auto model = make_model(bench.config.model, {16, 3}, 1, *ops);
  const auto trained = store.load_newest(model->tensors());
  REQUIRE(trained);
  // This checkpoint of a late step has weights, but no state of the optimizer.
  Snapshot weights;
  weights.restart(5000, trained->position, trained->parameters.size());
  weights.add(0, 0, trained->parameters);
  REQUIRE(store.save(weights, model->tensors()));
  bench.config.steps = 5001;
  REQUIRE(bench.run() == ExitCode::trained);
  const auto next = store.load_newest(model->tensors());
  REQUIRE(next);
  double largest = 0;
  for (std::size_t i = 0; i < next->parameters.size(); ++i)
    largest = std::max(largest, std::abs(double(next->parameters[i]) - double(trained->parameters[i])));
  // The first step of Adam is as long as lr in every direction.
  CHECK(largest / 0.001 == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE(
    "runs with the same seed end with the same bits, and a run with another seed ends with other bits") {
  Training a, b, other;
  other.config.seed = 2;
  REQUIRE(a.run() == ExitCode::trained);
  REQUIRE(b.run() == ExitCode::trained);
  REQUIRE(other.run() == ExitCode::trained);
  CHECK(a.state() == b.state());
  CHECK(a.state() != other.state());
}

TEST_CASE("a run whose loss is not finite ends as diverged") {
  Training bench;
  bench.config.model.hidden = {8, 8, 8};
  bench.config.optimizer = {.lr = 1e6, .momentum = 0.9};
  try {
    bench.run();
    FAIL("trained");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::diverged);
    CHECK(std::string(failure.what()).starts_with("diverged: the loss is not a number"));
  }
}

TEST_CASE("a run fails if its checkpoints do not fit the model, and does not start from new weights") {
  Training bench;
  REQUIRE(bench.run() == ExitCode::trained);
  bench.config.model.hidden = {9};
  try {
    bench.run();
    FAIL("trained");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::checkpoint_unusable);
  }
}

TEST_CASE("a run fails at its start if its folder for checkpoints cannot be written") {
  Training bench;
  fs::create_symlink(bench.folder / "gone", bench.env.checkpoints);  // as a volume that went away
  fs::create_directories(bench.folder / "gone");
  bench.config.checkpoint.every = 20;
  bench.config.patience_seconds = 0;
  bench.config.report_every = 200;
  REQUIRE(bench.run() == ExitCode::trained);
  fs::remove_all(bench.folder / "gone");
  try {
    bench.run();
    FAIL("trained");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::checkpoint_unusable);
    CHECK(std::string(failure.what()).starts_with("checkpoints cannot be written to "));
  }
}
