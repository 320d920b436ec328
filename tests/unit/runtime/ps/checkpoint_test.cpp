// The part of one server in a checkpoint: what it copies and writes, and what it reports when it cannot.
#include "runtime/ps/checkpoint.h"

#include <doctest/doctest.h>

#include "kernels/reference/reference_ops.h"
#include "tests/unit/runtime/scripted_peers.h"

TEST_SUITE_BEGIN("runtime/ps/checkpoint");

using namespace mlk::rt;
using mlk::test::ScriptedPeers;

namespace {

struct OneServer {
  mlk::test::TemporaryFolder folder;
  ScriptedPeers others{{Role::server, 1}, 1, 2, folder.path()};
  std::unique_ptr<mlk::kernels::Ops> ops = mlk::kernels::make_reference_ops();
  ServedModel model;
  ShardCheckpoint part{others.job(), 1, model};

  void serve() {
    model.tensors = {{"w", {4}, 0, 4}, {"b", {2}, 4, 2}};
    model.chunks = cut_chunks(model.tensors, 2);
    model.shard = std::make_unique<ParameterShard>(model.chunks, 1, Optimizer({.lr = 0.1}, 100), 1, *ops);
  }
  void seed(std::uint64_t clock) {
    for (const Chunk& chunk : model.chunks) {
      if (chunk.server == 1)
        REQUIRE(model.shard->seed(chunk.id, clock, mlk::kernels::Floats(chunk.size, 1), {}));
    }
  }
  CaptureMessage capture(std::uint64_t step) {
    const CaptureMessage wanted{step, 64 * step, CheckpointStore::name_aside(step)};
    part.capture(wanted);
    return wanted;
  }
  WrittenMessage written() {
    std::optional<WrittenMessage> written;
    others.until("is written", [&] {
      written = part.take_written();
      return written.has_value();
    });
    return *written;
  }
};

}  // namespace

TEST_CASE("for each capture, a server without weights reports that it has none, and writes no file") {
  OneServer server;
  const CaptureMessage first = server.capture(3);
  CHECK_FALSE(server.part.writing());
  auto told = server.part.take_written();
  REQUIRE(told);
  CHECK(told->step == 3);
  CHECK(told->aside == first.aside);
  CHECK(told->file.name.empty());
  CHECK(told->reason == "it has no weights");
  CHECK_FALSE(server.part.take_written());
  server.serve();
  server.capture(4);
  told = server.part.take_written();
  REQUIRE(told);
  CHECK(told->step == 4);
  CHECK(told->reason == "it has no weights");
}

TEST_CASE("a server writes its part of the requested step into a file that is named after the server") {
  OneServer server;
  server.serve();
  server.seed(7);
  const CaptureMessage wanted = server.capture(7);
  const WrittenMessage written = server.written();
  CHECK(written.step == 7);
  CHECK(written.aside == wanted.aside);
  CHECK(written.reason.empty());
  CHECK(written.file.name == "server-1.safetensors");
  CHECK(std::filesystem::file_size(server.folder.path() / wanted.aside / written.file.name) ==
        written.file.bytes);
  CHECK_FALSE(server.part.take_written());
  CHECK_FALSE(server.part.writing());
}

TEST_CASE("with sync, a server at another step than the requested one reports its own step") {
  OneServer server;
  server.serve();
  server.seed(9);
  server.capture(7);
  CHECK(server.written().reason == "its weights are of step 9");
}

TEST_CASE("if a server cannot write into the folder, its result names no file, and has the reason") {
  OneServer server;
  server.serve();
  server.seed(7);
  server.part.capture({7, 448, "../outside"});
  const WrittenMessage written = server.written();
  CHECK(written.file.name.empty());
  CHECK_FALSE(written.reason.empty());
}

TEST_CASE(
    "a server with another folder for checkpoints is refused, and a server that shares the folder is not") {
  OneServer server;
  CheckpointFolder here(server.others.job());
  CHECK_THROWS_WITH_AS(here.require_shared(1, CheckpointStore::name_mark()),
                       doctest::Contains("MLK_CHECKPOINTS of server/1 is another folder than here"), Failure);
  CHECK_NOTHROW(here.require_shared(1, ""));
  const std::string mark = server.part.leave_mark();
  CHECK_NOTHROW(here.require_shared(1, mark));
  CHECK_NOTHROW(here.require_shared(1, mark));  // server 1 joins again
}
