// Runs with parameter servers in which the test plays no process: their results and files.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/single.h"
#include "runtime/train/trainer.h"
#include "tests/unit/runtime/ps_processes.h"

TEST_SUITE_BEGIN("runtime/ps/whole_run");

namespace mlk::rt {
namespace {

using nlohmann::json;
using test::ProcessEnd;
using test::PsProcess;

// All processes of a run, which share a folder for checkpoints.
struct WholeRun {
  test::TemporaryFolder folder;
  std::vector<std::unique_ptr<PsProcess>> servers, workers;

  WholeRun(int worker_count, int server_count) {
    for (int rank = 0; rank < server_count; ++rank)
      servers.push_back(std::make_unique<PsProcess>(PeerId{Role::server, static_cast<std::uint32_t>(rank)},
                                                    worker_count, server_count));
    for (int rank = 0; rank < worker_count; ++rank)
      workers.push_back(std::make_unique<PsProcess>(PeerId{Role::worker, static_cast<std::uint32_t>(rank)},
                                                    worker_count, server_count));
    std::vector<std::string> addresses;
    for (const auto& server : servers) addresses.push_back(server->address());
    each([&](PsProcess& process) {
      process.env.seeds_server = addresses;
      process.env.checkpoints = folder / "checkpoints";
      process.config.steps = 20;
      process.config.report_every = 10;
      process.config.optimizer = {.lr = 0.1, .momentum = 0.9};
    });
  }
  void each(const std::function<void(PsProcess&)>& what) {
    for (const auto& server : servers) what(*server);
    for (const auto& worker : workers) what(*worker);
  }
  // All processes train to the end, and leave the same result.
  json train() {
    each([](PsProcess& process) { process.start(); });
    each([](PsProcess& process) { CHECK(process.end() == ProcessEnd{ExitCode::trained, ""}); });
    const std::string result = workers.front()->result();
    for (std::size_t rank = 1; rank < workers.size(); ++rank) {
      CHECK(json::parse(workers[rank]->result()) == json::parse(result));
      CHECK(workers[rank]->metrics().empty());
    }
    for (std::size_t rank = 0; rank < servers.size(); ++rank) {
      CHECK(json::parse(servers[rank]->result()).at("done") == true);
      CHECK(servers[rank]->metrics().empty());
    }
    return json::parse(result);
  }
  TrainingState saved() {
    const Log log("test", -1);
    std::ostringstream metrics;
    Reporter reporter(metrics, "", 0);
    StopSignal stop;
    Job job{workers[0]->env, workers[0]->config, stop, reporter, log};
    auto found = CheckpointStore(folder / "checkpoints", 1, log).load_newest(Trainer(job).tensors());
    REQUIRE(found);
    return *found;
  }
};

void wait_for(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + test::process_patience;
  while (!holds()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(Milliseconds(1));
  }
}

void check_close(const kernels::Floats& one, const kernels::Floats& other) {
  REQUIRE(one.size() == other.size());
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i] == doctest::Approx(other[i]).epsilon(0.001));
}

}  // namespace

TEST_CASE(
    "sync: two workers with two servers reach the weights of one process whose batch is twice as large") {
  WholeRun run(2, 2);
  const json result = run.train();
  CHECK(result.at("done") == true);
  CHECK(result.at("step") == 20);
  CHECK(result.at("epoch") == 1);
  CHECK(result.at("checkpoint") == 20);
  CHECK(result.at("restored_step") == 0);
  CHECK(result.at("curve").size() == 2);
  CHECK(result.at("metrics").at("world") == 2);
  CHECK(result.at("metrics").at("restarts") == 0);
  CHECK(run.workers[0]->metrics().starts_with("mlk step=10 epoch=0 loss="));
  CHECK(std::ranges::count(run.workers[0]->metrics(), '\n') == 2);
  const TrainingState together = run.saved();
  CHECK(together.step == 20);
  CHECK(together.position == 160);

  WholeRun alone(1, 1);
  Config config = alone.workers[0]->config;
  config.mode = Mode::single;
  config.data.batch = 8;
  config.checkpoint.every = 20;
  const Log log("test", -1);
  StopSignal stop;
  std::ostringstream metrics;
  Reporter reporter(metrics, "", 0);
  Job job{alone.workers[0]->env, config, stop, reporter, log};
  REQUIRE(run_single(job) == ExitCode::trained);
  const TrainingState expected = alone.saved();
  check_close(together.parameters, expected.parameters);
  check_close(together.optimizer_state, expected.optimizer_state);
}

TEST_CASE("a run that continues from a checkpoint reaches the weights of an uninterrupted run") {
  WholeRun whole(2, 1), cut(2, 1);
  whole.train();
  cut.each([](PsProcess& process) { process.config.steps = 12; });
  cut.train();
  WholeRun next(2, 1);
  next.each([&](PsProcess& process) { process.env.checkpoints = cut.folder / "checkpoints"; });
  const json result = next.train();
  CHECK(result.at("restored_step") == 12);
  CHECK(result.at("step") == 20);
  const TrainingState expected = whole.saved(), got = cut.saved();
  CHECK(got.step == 20);
  CHECK(got.position == 160);
  check_close(got.parameters, expected.parameters);
  check_close(got.optimizer_state, expected.optimizer_state);
}

TEST_CASE("async: the workers make the steps together, and the model learns") {
  std::optional<int> bound;
  SUBCASE("without a bound") {}
  SUBCASE("with a bound") { bound = 1; }
  WholeRun run(2, 2);
  run.each([&](PsProcess& process) {
    process.config.consistency = {false, bound};
    process.config.steps = 200;
    process.config.checkpoint.every = 50;
  });
  const json result = run.train();
  CHECK(result.at("step") == 200);
  CHECK(result.at("metrics").at("accuracy") > 0.8);
  CHECK(result.at("metrics").at("staleness_max") >= result.at("metrics").at("staleness"));
  const TrainingState saved = run.saved();
  CHECK(saved.step == 200);
  CHECK(saved.position == 800);
}

TEST_CASE("a run continues when a worker leaves and another takes its place") {
  WholeRun run(2, 1);
  // The slice of this worker keeps the first step open until the worker is stopped.
  run.workers[1]->config.step_delay_ms = 1'000'000;
  run.each([](PsProcess& process) { process.start(); });
  wait_for([&] { return run.servers[0]->has_logged("training with 2 of 2 workers from step 0"); });
  run.workers[1]->request_stop();
  CHECK(run.workers[1]->end() == ProcessEnd{ExitCode::terminated, ""});
  PsProcess again({Role::worker, 1}, 2, 1);
  again.config = run.workers[0]->config;
  again.env.seeds_server = run.workers[1]->env.seeds_server;
  again.env.incarnation = "second";
  again.start();
  CHECK(run.workers[0]->end() == ProcessEnd{ExitCode::trained, ""});
  CHECK(again.end() == ProcessEnd{ExitCode::trained, ""});
  CHECK(run.servers[0]->end() == ProcessEnd{ExitCode::trained, ""});
  const json result = json::parse(run.workers[0]->result());
  CHECK(result.at("step") == 20);
  CHECK(result.at("metrics").at("restarts") == 1);
  const TrainingState saved = run.saved();
  CHECK(saved.step == 20);
  CHECK(saved.position == 160);
  CHECK(saved.history.restarts == 1);
}

TEST_CASE("after SIGTERM, the servers leave a checkpoint of a complete step") {
  WholeRun run(1, 2);
  run.each([](PsProcess& process) {
    process.config.steps = 1'000'000;
    process.config.step_delay_ms = 1;
    process.config.report_every = 1;
  });
  run.each([](PsProcess& process) { process.start(); });
  wait_for([&] { return !run.workers[0]->result().empty(); });
  run.each([](PsProcess& process) { process.request_stop(); });
  run.each([](PsProcess& process) { CHECK(process.end() == ProcessEnd{ExitCode::terminated, ""}); });
  const TrainingState saved = run.saved();
  CHECK(saved.step >= 1);
  CHECK(saved.position == 4 * saved.step);
  const json first = json::parse(run.servers[0]->result());
  CHECK(first == json{{"schema", 1},
                      {"rank", 0},
                      {"checkpoint", saved.step},
                      {"done", false},
                      {"message", "terminated"}});
}

}  // namespace mlk::rt
