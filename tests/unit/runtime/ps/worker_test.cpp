// A whole worker before servers that the test plays: every message that it sends, in order, and the files
// that it leaves.
#include "runtime/ps/worker.h"

#include <algorithm>
#include <memory>
#include <sstream>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/ps/machines/offline.h"
#include "runtime/train/trainer.h"
#include "tests/unit/runtime/checkpoint_states.h"
#include "tests/unit/runtime/ps_processes.h"

TEST_SUITE_BEGIN("runtime/ps/worker");

namespace mlk::rt {
namespace {

using nlohmann::json;
using test::Numbers;
using test::PlayedProcess;
using test::ProcessEnd;
using test::PsProcess;
using Type = MessageType;

constexpr PeerId tested_worker{Role::worker, 0};

// Computes the values that the worker should compute.
struct Twin {
  StopSignal stop;
  Log log{"twin", -1};
  std::ostringstream metrics;
  Reporter reporter{metrics, "", 0};
  Job job;
  Trainer trainer;

  explicit Twin(const PsProcess& worker)
      : job{worker.env, worker.config, stop, reporter, log}, trainer(job) {}
  Numbers weights() {
    const auto parameters = trainer.model().parameters();
    return {parameters.begin(), parameters.end()};
  }
  void take(const Numbers& weights) { std::ranges::copy(weights, trainer.model().parameters().begin()); }
};

// A server that the test plays.
struct PlayedServer : PlayedProcess {
  std::vector<Chunk> chunks;  // the chunks of this server

  PlayedServer(std::uint32_t rank, const std::vector<Chunk>& all, const std::string& address = "127.0.0.1:0",
               std::uint64_t at = 1)
      : PlayedProcess({Role::server, rank}, address, at) {
    for (const Chunk& chunk : all) {
      if (chunk.server == rank) chunks.push_back(chunk);
    }
  }

  JoinMessage hear_join(std::uint64_t clock) {
    const Event event = hear(Type::join);
    CHECK(event.header.clock == clock);
    const auto join = decode_join(event.header, event.payload);
    REQUIRE(join);
    return *join;
  }
  ReadyMessage hear_ready() {
    const auto ready = decode_ready(hear(Type::ready).payload);
    REQUIRE(ready);
    return *ready;
  }
  void work(const WorkMessage& message, std::uint64_t clock, std::uint32_t slice = 0) {
    say(Type::work, clock, slice, 0, 0, encode(message));
  }
  void hear_pulls(std::uint64_t clock) {
    for (const Chunk& chunk : chunks) {
      const Header header = hear(Type::pull).header;
      CHECK(header.key == chunk.id);
      CHECK(header.clock == clock);
      CHECK(header.generation == generation);
    }
  }
  // async: the worker's own count, which grows by one with every pull and push.
  std::uint64_t hear_newest_pulls() {
    const std::uint64_t count = hear(Type::pull).header.clock;
    for (std::size_t i = 1; i < chunks.size(); ++i) {
      const Header header = hear(Type::pull).header;
      CHECK(header.key == chunks[i].id);
      CHECK(header.clock == count);
    }
    return count;
  }
  void weights(const Numbers& values, std::uint64_t clock, std::uint64_t version,
               std::optional<std::uint32_t> without = {}) {
    for (const Chunk& chunk : chunks) {
      if (chunk.id == without) continue;
      Header header;
      header.type = Type::weights;
      header.key = chunk.id;
      header.clock = clock;
      header.offset = version;
      say_floats(header, std::span(values).subspan(chunk.offset, chunk.size));
    }
  }
  void accept(std::uint64_t clock) {
    for (const Chunk& chunk : chunks) say(Type::accepted, clock, chunk.id);
  }
  // The gradients of this server's chunks.
  void hear_pushes(std::uint64_t clock, std::uint64_t offset, std::span<const float> gradients) {
    for (const Chunk& chunk : chunks) {
      Header header;
      const Numbers pushed = hear_floats(Type::push, &header);
      CHECK(header.key == chunk.id);
      CHECK(header.clock == clock);
      CHECK(header.offset == offset);
      CHECK(header.generation == generation);
      CHECK(std::ranges::equal(pushed, gradients.subspan(chunk.offset, chunk.size)));
    }
  }
  // Asks for seeds of this server, and compares them with these weights.
  void hear_seeds(std::uint64_t clock, std::uint64_t round, const Numbers& values) {
    for (const Chunk& chunk : chunks) {
      Header header;
      const Numbers seed = hear_floats(Type::seed, &header);
      CHECK(header.key == chunk.id);
      CHECK(header.clock == clock);
      CHECK(header.offset == round);
      CHECK(header.flags == 0);
      CHECK(std::ranges::equal(seed, std::span(values).subspan(chunk.offset, chunk.size)));
    }
  }
  void trained(std::uint64_t clock, const TrainedMessage& message) {
    say(Type::trained, clock, 0, 0, 0, encode(message));
  }
  void finish(const std::string& result) {
    say(Type::finish, 0, 0, 0, 0, PayloadWriter().text(result).bytes());
  }
};

Numbers shifted(Numbers weights, float by) {
  for (float& weight : weights) weight += by;
  return weights;
}

// One worker and its servers.
struct ServedWorker {
  PsProcess worker;
  std::unique_ptr<Twin> twin;
  std::vector<Chunk> chunks;
  std::vector<std::unique_ptr<PlayedServer>> servers;

  explicit ServedWorker(int workers, int count = 1) : worker(tested_worker, workers, count) {
    twin = std::make_unique<Twin>(worker);
    chunks = cut_chunks(twin->trainer.tensors(), static_cast<std::uint32_t>(count));
    for (std::uint32_t rank = 0; rank < static_cast<std::uint32_t>(count); ++rank) {
      servers.push_back(std::make_unique<PlayedServer>(rank, chunks));
      worker.env.seeds_server.push_back(servers.back()->address());
    }
  }
  PlayedServer& server() { return *servers.front(); }
  std::span<const float> gradients(std::uint64_t position) {
    twin->trainer.compute(position, 4);
    return twin->trainer.model().gradients();
  }
  static std::uint64_t slice(std::uint64_t number) { return number << 32 | 4; }
  static WorkMessage at(std::uint64_t position) {
    WorkMessage work;
    work.position = position;
    work.samples = 4;
    work.run_position = position;
    return work;
  }
  // The worker runs, has joined and asks for work.
  void begin() {
    worker.start();
    for (const auto& server : servers) server->await_up(tested_worker);
    for (const auto& server : servers) server->hear_join(0);
    server().hear_ready();
  }
  // sync: sends the first work, at weights of that clock.
  Numbers begin_work(std::uint64_t clock, const WorkMessage& work) {
    const Numbers weights = shifted(twin->weights(), 0.25);
    server().work(work, clock);
    server().hear_pulls(clock);
    server().weights(weights, clock, clock);
    twin->take(weights);
    return weights;
  }
  void finish() {
    server().finish("the result");
    server().hear_goodbye(ExitCode::trained);
    CHECK(worker.end() == ProcessEnd{ExitCode::trained, ""});
  }
};

}  // namespace

TEST_CASE("sync: a worker joins, pulls, pushes the gradients of its slices, and reports at the end") {
  ServedWorker run(2);
  run.worker.config.report_every = 1;
  PlayedServer& server = run.server();
  run.worker.start();
  server.await_up(tested_worker);
  const JoinMessage join = server.hear_join(0);
  CHECK(join.position == 0);
  CHECK(join.offline == 0);
  CHECK(join.restarts == 0);
  CHECK(join.lost_samples == 0);
  CHECK(join.tensors == run.twin->trainer.tensors());
  ReadyMessage ready = server.hear_ready();
  CHECK_FALSE(ready.done);
  server.say(Type::seed_wanted, 77, 0);
  server.hear_seeds(0, 77, run.twin->weights());

  server.generation = 5;
  WorkMessage work = ServedWorker::at(8);
  work.run_position = 0;
  work.checkpoint = 7;
  work.reports = true;
  work.progress.run = {2, 5, 3, 16, {}};
  server.work(work, 0, 1);
  server.hear_pulls(0);
  const Numbers first = shifted(run.twin->weights(), 0.25), second = shifted(first, -0.5);
  server.weights(first, 0, 0);
  run.twin->take(first);
  const double loss = run.twin->trainer.compute(8, 4);
  server.hear_pushes(0, ServedWorker::slice(1), run.twin->trainer.model().gradients());
  server.weights(second, 1, 1);
  server.accept(0);
  ready = server.hear_ready();
  CHECK(ready.done);
  CHECK(ready.clock == 0);
  CHECK(ready.slice == 1);
  CHECK(ready.loss == doctest::Approx(loss));
  CHECK(ready.seconds > 0);
  CHECK(ready.staleness == 0);

  work.position = 16;
  work.run_position = 204;  // in the third epoch
  work.progress.loss_sum = 3;
  work.progress.loss_count = 2;
  server.work(work, 1, 0);
  run.twin->take(second);  // the worker has these weights
  server.hear_pushes(1, ServedWorker::slice(0), run.gradients(16));
  server.weights(first, 2, 2);
  server.accept(1);
  CHECK(server.hear_ready().slice == 0);

  TrainedMessage trained;
  trained.run_position = 300;
  trained.checkpoint = 9;
  trained.progress = work.progress;
  trained.progress.loss_sum = 5;
  server.trained(2, trained);
  server.hear_pulls(2);
  server.weights(second, 2, 2);
  const json reported = json::parse(PayloadReader(server.hear(Type::reported).payload).text());
  CHECK(reported.at("done") == true);
  CHECK(reported.at("step") == 2);
  CHECK(reported.at("epoch") == 3);
  CHECK(reported.at("checkpoint") == 9);
  CHECK(reported.at("restored_step") == 0);
  CHECK(reported.at("curve") == json::parse("[[1,1.5],[2,2.5]]"));
  CHECK(reported.at("metrics").at("world") == 2);
  CHECK(reported.at("metrics").at("generation") == 5);
  CHECK(reported.at("metrics").at("restarts") == 3);
  CHECK(reported.at("metrics").at("lost_samples") == 16);
  CHECK(reported.at("metrics").contains("accuracy"));
  CHECK(reported.at("metrics").contains("comm_ms"));
  server.finish("the result");
  server.hear_goodbye(ExitCode::trained);
  CHECK(run.worker.end() == ProcessEnd{ExitCode::trained, ""});
  CHECK(run.worker.result().starts_with("the result"));
  const std::string metrics = run.worker.metrics(), second_line = metrics.substr(metrics.find('\n') + 1);
  CHECK(metrics.starts_with("mlk step=1 epoch=2 "));
  CHECK(metrics.find(" loss=1.5 ") < metrics.find('\n'));
  CHECK(second_line.starts_with("mlk step=2 epoch=3 "));
  CHECK(second_line.find(" loss=2.5 accuracy=") != std::string::npos);
}

TEST_CASE("async: a worker pulls once, and pushes with the version of its weights") {
  ServedWorker run(3);
  run.worker.config.consistency.sync = false;
  PlayedServer& server = run.server();
  run.begin();
  server.generation = 4;
  const Numbers first = shifted(run.twin->weights(), 0.25), second = shifted(first, -0.5);
  server.work(ServedWorker::at(8), 2);
  const std::uint64_t count = server.hear_newest_pulls();
  server.weights(first, count, 6);
  run.twin->take(first);
  server.hear_pushes(count + 1, 6, run.gradients(8));
  server.weights(first, count, 9);  // an answer to an abandoned request
  server.weights(second, count + 1, 7);
  CHECK(server.hear_ready().clock == 2);
  server.work(ServedWorker::at(20), 3);
  run.twin->take(second);
  server.hear_pushes(count + 2, 7, run.gradients(20));
  server.say(Type::accepted, 3, 0, flag_behind);
  // The worker is at version 7 by now, four updates further than when it got the work.
  const JoinMessage join = server.hear_join(7);
  CHECK(join.position == 20 + 4 * 4);
  CHECK(join.offline == 0);
  CHECK_FALSE(server.hear_ready().done);
  server.work(ServedWorker::at(40), 10);
  CHECK(server.hear_newest_pulls() > count + 3);
  run.finish();
}

TEST_CASE(
    "a worker with bounded staleness pulls if its weights are older than the bound, and reports their age") {
  ServedWorker run(2);
  run.worker.config.consistency = {false, 1};
  PlayedServer& server = run.server();
  run.begin();
  const Numbers weights = run.twin->weights();
  const auto work = [](std::uint64_t own, std::uint64_t others) {
    WorkMessage message = ServedWorker::at(0);
    message.own_slices = own;
    message.others_slices = others;
    return message;
  };
  std::uint64_t count = 0;
  const auto pull = [&] {
    count = server.hear_newest_pulls();
    server.weights(weights, count, 1);
  };
  const auto step = [&] {
    server.hear_pushes(++count, 1, run.gradients(0));
    server.weights(weights, count, 1);
    return server.hear_ready().staleness;
  };
  server.work(work(0, 0), 0);
  pull();
  CHECK(step() == 0);
  server.work(work(1, 0), 1);
  CHECK(step() == 1);
  server.work(work(2, 1), 2);  // the weights that it holds are two slices behind
  pull();
  CHECK(step() == 1);
  server.work(work(2, 3), 3);
  CHECK(step() == 1);
  server.work(work(4, 4), 4);
  CHECK(step() == 1);
  run.finish();
}

TEST_CASE("a worker joins again on request, and then pulls all weights") {
  ServedWorker run(2);
  PlayedServer& server = run.server();
  run.begin();
  WorkMessage work = ServedWorker::at(80);
  work.progress.run.restarts = 2;
  work.progress.run.lost_samples = 12;
  const Numbers weights = run.begin_work(3, work);
  server.hear_pushes(3, ServedWorker::slice(0), run.gradients(80));
  SUBCASE("by the answer to its push") { server.say(Type::accepted, 3, 0, flag_behind); }
  SUBCASE("by server 0") { server.say(Type::wait, 0, 0, flag_rejoin); }
  const JoinMessage join = server.hear_join(3);
  CHECK(join.position == 80);
  CHECK(join.restarts == 2);
  CHECK(join.lost_samples == 12);
  CHECK_FALSE(server.hear_ready().done);
  server.say(Type::wait);  // no work at the moment
  server.say(Type::wait, 0, 0, flag_running);
  server.say(Type::seed_wanted, 9, 0);
  server.hear_seeds(3, 9, weights);
  server.work(work, 3, 1);
  server.hear_pulls(3);
  server.weights(weights, 3, 3);
  server.hear_pushes(3, ServedWorker::slice(1), run.gradients(80));
  // When it joins again, weights that have all arrived are its newest step.
  server.weights(weights, 4, 4);
  server.say(Type::wait, 0, 0, flag_rejoin);
  CHECK(server.hear_join(4).position == 80 + 2 * 4);
  server.hear_ready();
  run.finish();
}

TEST_CASE("sync: a worker pulls only the weights that do not arrive") {
  ServedWorker run(1);
  PlayedServer& server = run.server();
  run.begin();
  const Numbers weights = run.begin_work(0, ServedWorker::at(0));
  server.hear_pushes(0, ServedWorker::slice(0), run.gradients(0));
  server.weights(weights, 1, 1, 2);
  server.accept(0);
  server.hear_ready();
  server.work(ServedWorker::at(4), 1);
  const Header asked = server.hear(Type::pull).header;
  CHECK(asked.key == 2);
  CHECK(asked.clock == 1);
  server.weights(weights, 1, 1);
  server.hear_pushes(1, ServedWorker::slice(0), run.gradients(4));
  run.finish();
}

TEST_CASE("a worker that is stopped finishes its slice, reports it, and leaves") {
  ServedWorker run(1);
  run.worker.config.step_delay_ms = 1'000'000;
  run.worker.start();
  PlayedServer& server = run.server();
  server.await_up(tested_worker);
  server.hear_join(0);
  server.hear_ready();
  // The answers arrive before the worker pushes, so the worker need not wait.
  const Numbers weights = shifted(run.twin->weights(), 0.25);
  server.work(ServedWorker::at(0), 0);
  server.hear_pulls(0);
  server.weights(weights, 0, 0);
  server.accept(0);
  run.worker.request_stop();
  for (std::size_t i = 0; i < server.chunks.size(); ++i) server.hear(Type::push);
  const ReadyMessage ready = server.hear_ready();
  CHECK(ready.done);
  CHECK(ready.clock == 0);
  server.hear_goodbye(ExitCode::terminated);
  CHECK(run.worker.end() == ProcessEnd{ExitCode::terminated, ""});
  CHECK(json::parse(run.worker.result()) ==
        json::parse(R"({"schema":1,"rank":0,"done":false,"message":"terminated"})"));
}

TEST_CASE("a worker that is stopped while it waits for work leaves without reporting a slice") {
  ServedWorker run(1);
  run.begin();
  run.worker.request_stop();
  run.server().hear_goodbye(ExitCode::terminated);
  CHECK(run.worker.end() == ProcessEnd{ExitCode::terminated, ""});
}

TEST_CASE("a worker whose server is lost continues alone, and reports its step when the server is back") {
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

TEST_CASE("a worker that misses a server sends cut_off to server 0, and joins when all servers are there") {
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

}  // namespace mlk::rt
