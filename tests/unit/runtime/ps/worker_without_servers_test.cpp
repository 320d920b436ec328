// What a worker does when a server is missing, is lost or ends with an error.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/ps/machines/offline.h"
#include "tests/unit/runtime/checkpoint_states.h"
#include "tests/unit/runtime/served_worker.h"

TEST_SUITE_BEGIN("runtime/ps/worker_without_servers");

namespace mlk::rt {
namespace {
namespace without_servers {

using nlohmann::json;
using served::PlayedServer;
using served::ServedWorker;
using served::shifted;
using served::tested_worker;
using served::Twin;
using test::Numbers;
using test::ProcessEnd;
using test::PsProcess;
using Type = MessageType;

TEST_CASE("if its server is lost, a worker continues alone, and reports its step when the server is back") {
  ServedWorker run(2);
  run.worker.config.steps = 9;
  run.worker.config.offline_seconds = 600;
  run.begin();
  PlayedServer& server = run.server();
  run.begin_work(3, ServedWorker::at(80));
  server.hear_pushes(3, ServedWorker::slice(0), run.gradients(80));
  const Numbers next = shifted(run.twin->weights(), -0.5);
  server.weights(next, 4, 4);
  const std::string address = server.address();
  // The answer to this marker shows that the worker has received the weights.
  server.say(Type::seed_wanted, 1, 0);
  server.hear_seeds(3, 1, run.twin->weights());
  run.servers.clear();
  PlayedServer back(0, run.chunks, address, 2);
  back.await_up(tested_worker);
  const Event joined = back.hear(Type::join);
  const auto join = decode_join(joined.header, joined.payload);
  REQUIRE(join);
  CHECK(join->clock == 4 + join->offline);
  CHECK(join->clock <= 9);
  CHECK(join->position == 80 + 8 * (1 + join->offline));
  run.twin->take(next);
  OfflineSteps alone(run.twin->job, run.twin->trainer);
  std::uint64_t step = 4, position = 88;
  while (step < join->clock) alone.advance(step, position);
  back.hear_ready();
  back.say(Type::seed_wanted, 5, 0);
  back.hear_seeds(join->clock, 5, run.twin->weights());
  back.finish("the result");
  back.hear_goodbye(ExitCode::trained);
  CHECK(run.worker.end() == ProcessEnd{ExitCode::trained, ""});
  CHECK(run.worker.has_logged("server/0 is lost, trying again"));
  if (join->offline == 0) return;
  CHECK(run.worker.has_logged("goes on offline for 600 s at most, from step 4"));
  CHECK(run.worker.has_logged("has made " + std::to_string(join->offline) + " steps offline, to step " +
                              std::to_string(join->clock)));
}

TEST_CASE(
    "if a worker lacks a server, it sends `cut_off` to server 0, and joins when all servers are there") {
  ServedWorker run(1, 2);
  const std::string address = run.servers[1]->address();
  run.servers.pop_back();
  PlayedServer& first = run.server();
  run.worker.start();
  first.await_up(tested_worker);
  first.say(Type::seed_wanted, 3, 0);  // the worker refuses: its model is no longer the one that it offered
  first.hear(Type::cut_off);
  PlayedServer second(1, run.chunks, address, 2);
  second.await_up(tested_worker);
  second.hear_join(0);
  first.hear_join(0);
  first.hear_ready();
  first.say(Type::seed_wanted, 4, 1);
  second.hear_seeds(0, 4, run.twin->weights());
  first.say(Type::seed_wanted, 5, 0);
  first.hear_seeds(0, 5, run.twin->weights());
  first.work(ServedWorker::at(0), 0);
  first.hear_pulls(0);
  second.hear_pulls(0);
  second.finish("of server 1");
  second.hear_goodbye(ExitCode::trained);
  CHECK(run.worker.end() == ProcessEnd{ExitCode::trained, ""});
  CHECK(run.worker.result().starts_with("of server 1"));
}

TEST_CASE("a worker without servers fails when its patience is over, and the error names the servers") {
  PsProcess worker(tested_worker, 1, 2);
  const test::FreeAddress nobody;
  worker.env.seeds_server = {nobody.text(), nobody.text()};
  worker.config.patience_seconds = 0;
  worker.start();
  CHECK(worker.end() == ProcessEnd{ExitCode::peers_lost, "gave up waiting for server 0, server 1 (0 s)"});
}

TEST_CASE(
    "a worker without servers ends as trained if it finds the last checkpoint, and reports the accuracy") {
  PsProcess worker(tested_worker, 1, 1);
  const test::FreeAddress nobody;
  worker.env.seeds_server = {nobody.text()};
  worker.env.checkpoints = worker.file("checkpoints");
  Twin twin(worker);
  TrainingState state{100, 400, {}, {}};
  for (const float weight : twin.weights()) state.parameters.push_back(weight);
  REQUIRE(CheckpointStore(worker.env.checkpoints, 1, twin.log)
              .save(test::snapshot_of(state), twin.trainer.tensors()));
  worker.start();
  CHECK(worker.end() == ProcessEnd{ExitCode::trained, ""});
  const json result = json::parse(worker.result());
  CHECK(result.at("done") == true);
  CHECK(result.at("step") == 100);
  CHECK(result.at("epoch") == 4);
  CHECK(result.at("metrics").contains("accuracy"));
}

TEST_CASE("a worker ends with the final exit code of its server") {
  ServedWorker run(1);
  run.begin();
  run.server().end(ExitCode::diverged);
  CHECK(run.worker.end() == ProcessEnd{ExitCode::diverged, "server/0 ended with exit code 66"});
}

}  // namespace without_servers
}  // namespace
}  // namespace mlk::rt
