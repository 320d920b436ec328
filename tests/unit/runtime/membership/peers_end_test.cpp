// How a process of a distributed run dials its peers, and how it reports its end to them.
#include <fcntl.h>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "runtime/base/exit_code.h"
#include "runtime/membership/peers.h"
#include "tests/unit/runtime/ranks_on_loopback.h"
#include "tests/unit/runtime/worker_job.h"

TEST_SUITE_BEGIN("runtime/membership/peers_end");

using namespace mlk::rt;
using namespace mlk::test;

namespace {

std::unique_ptr<Transport> played_process(PeerId id, std::uint64_t incarnation) {
  return std::make_unique<Transport>(Identity{"run", id, incarnation, "127.0.0.1:0"},
                                     parse_key(key_of_ranks()), TransportOptions(), [](std::string_view) {});
}

Event await_event(Transport& transport, Event::Kind kind) {
  const auto deadline = std::chrono::steady_clock::now() + rank_patience;
  while (true) {
    auto event = transport.receive(deadline);
    REQUIRE(event);
    if (event->kind == kind) return std::move(*event);
  }
}

// Worker 0, with its log in a file.
struct FirstWorker : WorkerJob {
  std::string log_path = folder / "log";
  int log_fd = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  Log kept{"worker", log_fd};
  Job own{env, config, stop, reporter, kept};

  FirstWorker() {
    write_file(folder / "key", key_of_ranks());
    env.run = "run";
    env.role = "worker";
    env.address = free_address();
    env.secret_path = folder / "key";
    env.incarnation = "first";
    config.mode = Mode::allreduce;
    config.workers = {2, 1};
  }
  ~FirstWorker() { close(log_fd); }
};

}  // namespace

TEST_CASE("run_among_peers() sends the exit code to all peers, even after a failure, which it throws again") {
  FirstWorker worker;
  const auto ends_with = [&](const std::function<ExitCode()>& end, bool wait_for_the_peer = true) {
    const auto peer = played_process({Role::worker, 1}, 5);
    ExitCode code = ExitCode::trained;
    std::string reason;
    std::thread process([&] {
      try {
        code = run_among_peers(worker.own, [&](Peers& peers) {
          CHECK(peers.self() == PeerId{Role::worker, 0});
          CHECK(peers.transport().self().incarnation == hash_incarnation("first"));
          while (wait_for_the_peer) {
            const auto event = peers.next(Milliseconds(100));
            if (event && event->kind == Event::Kind::up) break;
          }
          peers.transport().count_late();
          return end();
        });
      } catch (const Failure& failure) {
        code = failure.code;
        reason = failure.what();
      } catch (const std::exception& error) {
        code = ExitCode::internal_error;
        reason = error.what();
      }
    });
    peer->dial({Role::worker, 0}, worker.env.address);
    const Event goodbye = await_event(*peer, Event::Kind::goodbye);
    process.join();
    CHECK(goodbye.header.clock == static_cast<std::uint64_t>(code));
    return std::pair(code, reason);
  };
  CHECK(ends_with([] { return ExitCode::terminated; }) == std::pair(ExitCode::terminated, std::string()));
  CHECK(read_file(worker.log_path) == "worker: dropped 1 messages that came too late\n");
  CHECK(ends_with([]() -> ExitCode { throw Failure(ExitCode::peers_lost, "alone"); }) ==
        std::pair(ExitCode::peers_lost, std::string("alone")));
  CHECK(ends_with([]() -> ExitCode { throw std::runtime_error("broken"); }) ==
        std::pair(ExitCode::internal_error, std::string("broken")));
  // With a code that ends the whole run, the process stays until a peer has received the code.
  CHECK(ends_with([]() -> ExitCode { throw Failure(ExitCode::bad_data, "no data"); }, false) ==
        std::pair(ExitCode::bad_data, std::string("no data")));
}

TEST_CASE("a process ends if a peer reports a newer incarnation of this process") {
  FirstWorker worker;
  const auto peer = played_process({Role::worker, 1}, 5);
  worker.env.seeds_worker = {worker.env.address, peer->address()};
  Peers peers(worker.own);
  peers.dial(Role::worker, 1);
  await_event(peers.transport(), Event::Kind::up);
  await_event(*peer, Event::Kind::up);
  const auto newer = played_process({Role::worker, 0}, 6);
  newer->dial({Role::worker, 1}, peer->address());
  const auto deadline = std::chrono::steady_clock::now() + rank_patience;
  try {
    while (std::chrono::steady_clock::now() < deadline) peers.next(Milliseconds(10));
    FAIL("it goes on");
  } catch (const Failure& failure) {
    CHECK(failure.code == ExitCode::peers_lost);
    CHECK(std::string(failure.what()) == "worker/1 knows a newer incarnation of this process");
  }
}

TEST_CASE("Peers::dial() uses the seed address of the role and rank, and dials no peer beyond the seeds") {
  FirstWorker worker;
  worker.config.mode = Mode::ps;
  const auto other = played_process({Role::worker, 1}, 5), server = played_process({Role::server, 0}, 6);
  worker.env.seeds_worker = {worker.env.address, other->address()};
  worker.env.seeds_server = {server->address()};
  Peers peers(worker.own);
  peers.dial(Role::server, 1);
  peers.dial(Role::worker, 2);
  peers.dial(Role::server, 0);
  CHECK(await_event(peers.transport(), Event::Kind::up).peer == PeerId{Role::server, 0});
  peers.dial(Role::worker, 1);
  CHECK(await_event(peers.transport(), Event::Kind::up).peer == PeerId{Role::worker, 1});
  const Event up = await_event(*server, Event::Kind::up);
  CHECK(up.peer == PeerId{Role::worker, 0});
  CHECK(up.incarnation == hash_incarnation("first"));
  CHECK(up.address == worker.env.address);
  const std::string before = read_file(worker.log_path);
  peers.leave(ExitCode::terminated);
  CHECK(await_event(*other, Event::Kind::goodbye).header.clock == 143);
  CHECK(read_file(worker.log_path) == before);  // no message came too late
}

TEST_CASE("a process with the role `server` introduces itself as a server") {
  FirstWorker server;
  server.config.mode = Mode::ps;
  server.env.role = "server";
  server.env.rank = 3;
  const Peers peers(server.own);
  CHECK(peers.self() == PeerId{Role::server, 3});
}
