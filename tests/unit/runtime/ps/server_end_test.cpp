// How long a whole server stays, and how it ends.
#include <doctest/doctest.h>

#include "runtime/checkpoint/checkpoint.h"
#include "tests/unit/runtime/checkpoint_states.h"
#include "tests/unit/runtime/played_worker.h"

TEST_SUITE_BEGIN("runtime/ps/server_end");

namespace mlk::rt {
namespace {

using test::LoneServer;
using test::Numbers;
using test::PlayedWorker;
using test::ProcessEnd;
using test::push_header;
using test::slice_of;
using Type = MessageType;

const char* const trained_last_words = R"({"schema":1,"rank":0,"done":true,"message":""})";

// A run of one step that the first worker has finished.
struct EndedRun : LoneServer {
  explicit EndedRun(int count) : LoneServer(count) { server.config.steps = 1; }
  PlayedWorker& start() {
    server.start();
    PlayedWorker& first = come(0);
    for (int rank = 1; rank < server.config.workers.count; ++rank) come(static_cast<std::uint32_t>(rank));
    for (const auto& worker : workers) worker->join(1);
    first.seed_all(1);
    first.ready();
    CHECK(first.hear(Type::trained).header.clock == 1);
    first.report("the result");
    for (const auto& worker : workers) worker->hear_finish("the result");
    return first;
  }
  void check_trained() {
    CHECK(server.end() == ProcessEnd{ExitCode::trained, ""});
    CHECK(server.result().starts_with(trained_last_words));
  }
};

}  // namespace

TEST_CASE("a process that replaces a lost server ends with peers_lost if no worker connects") {
  LoneServer run(1);
  run.server.env.failures = 1;
  run.server.config.patience_seconds = 0;
  run.server.start();
  CHECK(run.server.end() == ProcessEnd{ExitCode::peers_lost, ""});
  CHECK(run.server.has_logged("no worker was heard of for 0 s"));
  CHECK(run.server.result().find(R"("done":false,"message":"no worker was heard of")") != std::string::npos);
}

TEST_CASE("a server ends when its last worker has been gone for longer than the patience") {
  LoneServer run(1);
  run.server.config.patience_seconds = 1;
  run.server.start();
  PlayedWorker& worker = run.come(0);
  worker.join();
  worker.seed_all();
  worker.ready();
  worker.hear_work(0, 0);
  worker.end(ExitCode::peers_lost);
  CHECK(run.server.end() == ProcessEnd{ExitCode::trained, ""});
  CHECK(run.server.has_logged("no worker was heard of for 1 s"));
  CHECK(run.server.result().find(R"("done":false,"message":"no worker was heard of")") != std::string::npos);
}

TEST_CASE("if a server finds the last checkpoint and no worker connects, the server ends as trained") {
  LoneServer run(1);
  run.server.config.patience_seconds = 0;
  run.server.env.checkpoints = run.server.file("checkpoints");
  const Log quiet("test", -1);
  REQUIRE(CheckpointStore(run.server.env.checkpoints, 1, quiet)
              .save(test::snapshot_of(test::state_at(100, 6, 1)), test::served_tensors));
  run.server.start();
  CHECK(run.server.end() == ProcessEnd{ExitCode::trained, ""});
  CHECK(run.server.has_logged("the run is trained: its last checkpoint is there"));
  CHECK(run.server.result().starts_with(trained_last_words));
}

TEST_CASE("a server of a trained run stays for a worker that was lost, and sends it the result") {
  EndedRun run(2);
  PlayedWorker& first = run.start();
  first.end(ExitCode::trained);
  run.workers[1]->end(ExitCode::peers_lost);  // the worker has not ended well
  PlayedWorker& back = run.come(1, 2);
  back.hear_finish("the result");
  back.end(ExitCode::trained);
  run.check_trained();
}

TEST_CASE("a server of a trained run ends when its time to stay is over") {
  EndedRun run(1);
  run.server.env.late_seconds = 0;
  run.start().hear_goodbye(ExitCode::trained);
  run.check_trained();
}

TEST_CASE("after SIGTERM, a server of a trained run ends as trained") {
  EndedRun run(1);
  PlayedWorker& worker = run.start();
  run.server.request_stop();
  worker.hear_goodbye(ExitCode::trained);
  run.check_trained();
}

TEST_CASE("a server of a trained run does not fail if a worker cannot start") {
  EndedRun run(2);
  run.start().end(ExitCode::trained);
  run.workers[1]->end(ExitCode::bad_data);
  run.come(1, 2).end(ExitCode::trained);
  run.check_trained();
}

TEST_CASE("a worker that connects as another incarnation replaces the first incarnation") {
  LoneServer run(1);
  run.server.start();
  PlayedWorker& first = run.come(0);
  first.join();
  first.seed_all();
  first.ready();
  first.hear_work(0, 0);
  PlayedWorker& second = run.come(0, 2);
  second.join();
  second.ready();
  CHECK(second.hear_work(0, 0).progress.run.restarts == 1);
  second.say_floats(push_header(0, 0, slice_of(0, 4)), Numbers{2, 2, 2, 2});
  second.hear_weights(0, 1, 1, {0, 1, 2, 3});
  second.hear_accepted(0, 0, 0);
  run.stop();
}

TEST_CASE("a worker that reads slowly gets all requested weights, each once and in the newest version") {
  // The weights have more bytes than a connection holds.
  const std::size_t count = 40;
  std::vector<TensorInfo> tensors;
  for (std::size_t i = 0; i < count; ++i)
    tensors.push_back({"w" + std::to_string(i), {chunk_floats}, i * chunk_floats, chunk_floats});
  LoneServer run(1, false);
  run.server.start();
  PlayedWorker& worker = run.come(0);
  worker.join(0, tensors);
  const std::uint64_t round = worker.hear(Type::seed_wanted).header.clock;
  const auto value = [](std::size_t chunk) { return static_cast<float>(chunk + 1); };
  for (std::uint32_t chunk = 0; chunk < count; ++chunk)
    worker.say_floats(test::seed_header(chunk, 0, round), Numbers(chunk_floats, value(chunk)));
  worker.ready();
  worker.hear_work(0, 0);
  for (std::uint32_t chunk = 0; chunk < count; ++chunk) worker.say(Type::pull, 1, chunk);
  for (std::uint32_t chunk = 0; chunk < count; ++chunk) {
    Header header;
    const Numbers weights = worker.hear_floats(Type::weights, &header);
    CHECK(header.key == chunk);
    REQUIRE(weights.size() == chunk_floats);
    CHECK(weights.front() == value(chunk));
    CHECK(weights.back() == value(chunk));
  }
  run.stop();
}

}  // namespace mlk::rt
