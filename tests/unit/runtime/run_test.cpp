#include "runtime/run.h"

#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/metrics/metrics_server.h"
#include "tests/unit/runtime/environment.h"
#include "tests/unit/runtime/idx_files.h"

TEST_SUITE_BEGIN("runtime/run");

namespace mlk::rt {
namespace {

using nlohmann::json;
using test::Environment;
using test::read_file;

// A run of one process, as the environment describes it.
struct Launched {
  test::TemporaryFolder folder;
  json config = json::parse(R"({
    "schema": 1, "mode": "single", "model": {"type": "mlp", "hidden": [8]}, "precision": "float32",
    "data": {"format": "idx", "batch": 30},
    "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": false, "weight_decay": 0,
                  "schedule": {"type": "constant", "warmup": 0}},
    "consistency": "sync", "steps": 4, "seed": 1, "report_every": 2, "evaluate_every": 0, "step_delay_ms": 0,
    "workers": {"count": 1, "min": 1}, "servers": {"count": 0}, "checkpoint": {"every": 0, "keep": 3},
    "patience_seconds": 10, "offline_seconds": 0})");
  std::map<std::string, std::string> env = {
      {"MLK_RUN", "r"},
      {"MLK_ROLE", "worker"},
      {"MLK_RANK", "0"},
      {"MLK_CONFIG", folder / "config.json"},
      {"MLK_DATA", folder.path()},
      {"MLK_RESULT", folder / "result"},
      {"MLK_CHECKPOINTS", folder / "checkpoints"},
  };
  std::ostringstream metrics;

  Launched() { test::write_learnable(folder.path()); }
  ExitCode run() {
    test::write_file(folder / "config.json", config.dump());
    const Environment set(env);
    return rt::run(metrics);
  }
  json result() const { return json::parse(read_file(folder / "result")); }
};

// The message in the result file of a run that cannot be trained.
std::string refusal(Launched& launched, ExitCode wanted) {
  CHECK(launched.run() == wanted);
  const json result = launched.result();
  CHECK(result.at("done") == false);
  CHECK(launched.metrics.str().empty());
  return result.at("message");
}

TEST_CASE("a process reads environment and configuration, trains the configured steps, and writes a result") {
  Launched launched;
  REQUIRE(launched.run() == ExitCode::trained);
  const json result = launched.result();
  CHECK(result.at("done") == true);
  CHECK(result.at("step") == 4);
  CHECK(result.at("message") == "");
  CHECK(launched.metrics.str().starts_with("mlk step=2 epoch=0 loss="));
}

TEST_CASE("the number of steps of a run with epochs follows from the number of samples of the data") {
  Launched launched;
  launched.config.erase("steps");
  launched.config["epochs"] = 3;
  REQUIRE(launched.run() == ExitCode::trained);
  CHECK(launched.result().at("step") == 10);  // 3 times 100 samples in batches of 30
  CHECK(launched.result().at("steps") == 10);
  CHECK(launched.metrics.str().starts_with("mlk step=2 epoch=0 steps=10 loss="));
}

TEST_CASE(
    "a printed line names the newest checkpoint, even if an earlier process has written that checkpoint") {
  Launched launched;
  REQUIRE(launched.run() == ExitCode::trained);
  CHECK(launched.result().at("checkpoint") == 4);
  launched.metrics.str("");
  launched.config["steps"] = 6;
  REQUIRE(launched.run() == ExitCode::trained);
  CHECK(launched.metrics.str().starts_with("mlk step=6 epoch=1 checkpoint=4 loss="));
  CHECK(launched.result().at("checkpoint") == 6);
}

TEST_CASE("if the environment is wrong, the result has the error and the rank") {
  Launched launched;
  launched.env["MLK_RANK"] = "7";
  launched.env.erase("MLK_RUN");
  CHECK(refusal(launched, ExitCode::bad_configuration) == "environment: MLK_RUN is not set");
  CHECK(launched.result().at("rank") == 7);
}

TEST_CASE("if the configuration is wrong, the result has the error and the rank") {
  Launched launched;
  launched.env["MLK_RANK"] = "2";
  launched.config["steps"] = 0;
  CHECK(refusal(launched, ExitCode::bad_configuration) ==
        launched.env.at("MLK_CONFIG") +
            ": configuration: steps must be a whole number from 1 to 1000000000000");
  CHECK(launched.result().at("rank") == 2);
}

TEST_CASE("if the folder of the data does not exist, the result names the folder") {
  Launched launched;
  launched.env["MLK_DATA"] = launched.folder / "nowhere";
  CHECK(refusal(launched, ExitCode::bad_data).find("nowhere") != std::string::npos);
}

TEST_CASE("a server is refused in the modes `single` and `allreduce`") {
  Launched launched;
  launched.env["MLK_ROLE"] = "server";
  for (const char* mode : {"single", "allreduce"}) {
    launched.config["mode"] = mode;
    CHECK(refusal(launched, ExitCode::bad_configuration) ==
          "environment: MLK_ROLE is server, but only mode ps has servers");
  }
}

TEST_CASE("a server needs the data if the configuration has epochs") {
  Launched launched;
  launched.env["MLK_ROLE"] = "server";
  launched.env.erase("MLK_DATA");
  launched.config["mode"] = "ps";
  launched.config["servers"]["count"] = 1;
  launched.config.erase("steps");
  launched.config["epochs"] = 1;
  CHECK(refusal(launched, ExitCode::bad_configuration) ==
        "environment: MLK_DATA is not set, and epochs are counted by it");
}

TEST_CASE(
    "modes with several processes need addresses, and the mode `ps` also needs the addresses of servers") {
  Launched launched;
  launched.config["mode"] = "allreduce";
  CHECK(refusal(launched, ExitCode::bad_configuration) == "environment: MLK_ADDRESS is not set");
  launched.env["MLK_ADDRESS"] = "127.0.0.1:1";
  launched.env["MLK_SEEDS_WORKER"] = "127.0.0.1:1";
  CHECK(refusal(launched, ExitCode::bad_configuration) == "environment: MLK_SECRET is not set");
  launched.config["mode"] = "ps";
  launched.config["servers"]["count"] = 1;
  CHECK(refusal(launched, ExitCode::bad_configuration) == "environment: MLK_SEEDS_SERVER is not set");
}

TEST_CASE("a process trains without serving metrics if another process uses the port") {
  Launched launched;
  const MetricsServer first({"127.0.0.1", 0}, "text/plain", [] { return std::string(); });
  launched.env["MLK_ADDRESS"] = "127.0.0.1:1";
  launched.env["MLK_METRICS_PORT"] = std::to_string(first.port());
  CHECK(launched.run() == ExitCode::trained);
}

TEST_CASE("a process writes event files to the folder of MLK_TENSORBOARD") {
  Launched launched;
  launched.env["MLK_TENSORBOARD"] = launched.folder / "events";
  REQUIRE(launched.run() == ExitCode::trained);
  CHECK_FALSE(std::filesystem::is_empty(launched.folder / "events"));
}

// The run of Launched as a trial of a sweep, with the third line of the file of points.
struct LaunchedTrial : Launched {
  json point = {{"trial", 7}, {"hash", "abc"}, {"parameters", {{"steps", 6}}}, {"config", {{"steps", 6}}}};

  LaunchedTrial() {
    env["MLK_POINTS"] = folder / "points.jsonl";
    env["MLK_TRIAL_INDEX"] = "2";
    write_points();
  }
  void write_points() const { test::write_file(folder / "points.jsonl", "{}\n{}\n" + point.dump() + "\n"); }
};

TEST_CASE("a trial trains with the values of its line, and writes into its own folders") {
  LaunchedTrial trial;
  trial.env["MLK_TENSORBOARD"] = trial.folder / "events";
  REQUIRE(trial.run() == ExitCode::trained);
  CHECK(trial.result().at("step") == 6);
  CHECK(std::filesystem::exists(trial.folder / "checkpoints/7/step-000000000006/manifest.json"));
  CHECK_FALSE(std::filesystem::is_empty(trial.folder / "events/7"));
  for (const char* folder : {"checkpoints", "events"}) {
    for (const auto& entry : std::filesystem::directory_iterator(trial.folder / folder))
      CHECK(entry.path().filename() == "7");
  }
}

TEST_CASE("a trial is refused if its line is missing or invalid, or if its mode has several processes") {
  LaunchedTrial trial;
  trial.env["MLK_TRIAL_INDEX"] = "3";
  CHECK(refusal(trial, ExitCode::bad_configuration) == trial.env["MLK_POINTS"] + ":4: there is no such line");
  trial.env["MLK_TRIAL_INDEX"] = "2";
  trial.point["config"] = {{"optimizer", {{"lr", "high"}}}};
  trial.write_points();
  CHECK(refusal(trial, ExitCode::bad_configuration) ==
        trial.env["MLK_CONFIG"] + ", changed by trial 7: configuration: optimizer.lr must be a number");
  for (const char* mode : {"ps", "allreduce"}) {
    trial.point["config"] = {{"mode", mode}, {"servers", {{"count", 1}}}};
    trial.write_points();
    CHECK(refusal(trial, ExitCode::bad_configuration) ==
          trial.env["MLK_CONFIG"] + ": a trial is one process: mode must be \"single\"");
  }
}

}  // namespace
}  // namespace mlk::rt
