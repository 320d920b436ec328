// Whole servers of a run with several servers: a server that a played server 0 leads, and a server 0 that
// leads a played server.
#include <algorithm>
#include <filesystem>

#include <doctest/doctest.h>

#include "runtime/checkpoint/checkpoint.h"
#include "tests/unit/runtime/played_worker.h"

TEST_SUITE_BEGIN("runtime/ps/follower");

namespace mlk::rt {
namespace {

using test::Numbers;
using test::PlayedProcess;
using test::PlayedWorker;
using test::ProcessEnd;
using test::PsProcess;
using test::push_header;
using test::seed_header;
using test::served_tensors;
using test::slice_of;
using Type = MessageType;

// Server 1 of three, and a server 0 that the test plays. Server 1 holds the second of two chunks.
struct Follower {
  PsProcess server{{Role::server, 1}, 2, 3};
  std::unique_ptr<PlayedProcess> server_0 = std::make_unique<PlayedProcess>(PeerId{Role::server, 0});
  const std::string address = server_0->address();

  explicit Follower(const std::string& checkpoints = "") {
    server.env.seeds_server = {address, server.address()};
    if (!checkpoints.empty()) server.env.checkpoints = server.file(checkpoints);
  }
  void start() {
    server.start();
    server_0->await_up(server.self());
  }
  void server_0_is_lost() { server_0.reset(); }
  void server_0_is_back() {
    server_0 = std::make_unique<PlayedProcess>(PeerId{Role::server, 0}, address, 2);
    server_0->await_up(server.self());
  }
  // Receives the join message by which the server introduces itself. Returns the mark in the message.
  std::string hear_join(std::uint64_t round, std::uint8_t flags) {
    const Event join = server_0->hear(Type::join);
    CHECK(join.header.clock == round);
    CHECK(join.header.flags == flags);
    return PayloadReader(join.payload).text();
  }
  void seed(PlayedWorker& worker, std::uint64_t clock) {
    server_0->say(Type::seed_wanted, 40);
    CHECK(server_0->hear(Type::seed_wanted).header.clock == 40);
    worker.say_floats(seed_header(0, clock, 40), Numbers{1, 2, 3, 4});  // this server does not hold chunk 0
    worker.say_floats(seed_header(1, clock, 40), Numbers{5, 6});
    CHECK(server_0->hear(Type::seeded).header.clock == 40);
  }
  void capture(PlayedProcess& from, std::uint64_t step, const std::string& aside) {
    from.say(Type::capture, step, 0, 0, 0, encode(CaptureMessage{step, 8 * step, aside}));
  }
  WrittenMessage hear_written(std::uint64_t step) {
    CHECK(server_0->hear(Type::captured).header.clock == step);
    const Event event = server_0->hear(Type::written);
    const auto written = decode_written(event.header, event.payload);
    REQUIRE(written);
    CHECK(written->step == step);
    return *written;
  }
};

}  // namespace

TEST_CASE("server 1 introduces itself, is seeded, serves, saves its part, and ends when server 0 ends") {
  Follower run("checkpoints");
  run.start();
  PlayedWorker worker(0);
  worker.dial(run.server);
  run.server_0->say(Type::seed_wanted, 39);  // without a model the server cannot be seeded
  run.capture(*run.server_0, 3, "any");
  CHECK(run.hear_written(3).reason == "it has no weights");
  worker.join();
  const std::string mark = run.hear_join(0, flag_empty);
  CHECK(std::filesystem::exists(run.server.file("checkpoints/" + mark)));
  PlayedProcess third({Role::server, 2});
  third.dial(run.server);
  CHECK(run.hear_join(0, flag_empty) == mark);  // the server sends join for each server that it meets
  third.say(Type::seed_wanted, 41);             // only server 0 leads this server
  third.say(Type::join, 0, 0, flag_without);
  run.seed(worker, 0);

  worker.generation = 3;
  worker.say_floats(push_header(1, 0, slice_of(0, 4)), Numbers{1, 3});
  worker.hear_accepted(1, 0, 0);
  worker.say_floats(push_header(0, 0, slice_of(0, 4)), Numbers{1, 1, 1, 1});
  worker.hear_accepted(0, 0, flag_behind);
  worker.say_floats(push_header(1, 0, slice_of(1, 4)), Numbers{1, 1});
  worker.hear_weights(1, 1, 1, {4.5, 5});
  worker.hear_accepted(1, 0, 0);

  const std::string aside = CheckpointStore::name_aside(1);
  run.capture(worker, 1, aside);  // capture messages of workers and of other servers are ignored
  run.capture(third, 1, aside);
  worker.say(Type::finish);
  worker.say(Type::pull, 1, 1);
  worker.hear_weights(1, 1, 1, {4.5, 5});
  run.server_0->say(Type::capture, 1, 0, 0, 0, {});  // this message cannot be decoded
  run.capture(*run.server_0, 1, aside);
  const WrittenMessage written = run.hear_written(1);
  CHECK(written.aside == aside);
  CHECK(written.file.name == "server-1.safetensors");
  CHECK(written.file.bytes ==
        std::filesystem::file_size(run.server.file("checkpoints/" + aside + "/server-1.safetensors")));
  CHECK(written.reason == "");
  run.capture(*run.server_0, 2, aside);
  CHECK(run.hear_written(2).reason == "its weights are of step 1");
  run.hear_join(2, flag_without);

  for (std::uint64_t slice = 0; slice < 2; ++slice) {
    worker.say_floats(push_header(1, 1, slice_of(slice, 4)), Numbers{0, 0});
    if (slice == 1) worker.hear_weights(1, 2, 2, {4.5, 5});
    worker.hear_accepted(1, 1, 0);
  }
  worker.say(Type::pull, 9, 1);  // the server is not at step 9 yet
  run.hear_join(9, flag_without);
  worker.say(Type::pull, 0, 1);  // the server has dropped step 0
  run.hear_join(0, flag_without);

  run.server_0_is_lost();
  worker.say(Type::pull, 2, 1);
  worker.hear_weights(1, 2, 2, {4.5, 5});
  run.server_0_is_back();
  CHECK(run.hear_join(40, 0) == mark);  // the server has the weights of that round
  run.server_0->say(Type::finish, 0, 0, 0, 0, PayloadWriter().text("the result").bytes());
  worker.hear_finish("the result");
  CHECK(PayloadReader(run.server_0->hear(Type::finish).payload).text() == "the result");
  third.hear(Type::finish);
  PlayedWorker late(1);
  late.dial(run.server);
  late.hear_finish("the result");
  run.server_0->end(ExitCode::trained);
  worker.hear_goodbye(ExitCode::trained);
  CHECK(run.server.end() == ProcessEnd{ExitCode::trained, ""});
  CHECK(run.server.has_logged("worker/0 sent weights that do not fit"));
  CHECK_FALSE(std::filesystem::exists(run.server.file("checkpoints/" + mark)));
}

TEST_CASE("after SIGTERM, server 1 still writes its part of the checkpoint, and ends with server 0") {
  Follower run("checkpoints");
  run.start();
  PlayedWorker worker(0);
  worker.dial(run.server);
  worker.join();
  run.hear_join(0, flag_empty);
  run.seed(worker, 6);
  run.server.request_stop();
  run.capture(*run.server_0, 6, CheckpointStore::name_aside(6));
  CHECK(run.hear_written(6).reason == "");
  run.server_0->end(ExitCode::terminated);
  worker.hear_goodbye(ExitCode::terminated);
  CHECK(run.server.end() == ProcessEnd{ExitCode::terminated, ""});
  CHECK(run.server.result().find(R"("done":false,"message":"terminated")") != std::string::npos);
  CHECK(run.server.result().find("checkpoint") == std::string::npos);
}

TEST_CASE(
    "server 0 lets a worker seed server 1, waits until server 1 has copied its part, and repeats the seeding "
    "if server 1 lacks the weights") {
  PsProcess server({Role::server, 0}, 1, 2);
  server.env.checkpoints = server.file("checkpoints");
  server.config.checkpoint.every = 1;
  server.start();
  PlayedProcess other({Role::server, 1});
  other.dial(server);
  PlayedWorker worker(0);
  worker.dial(server);
  worker.join();
  other.say(Type::join, 0, 0, flag_empty, 0, PayloadWriter().text("").bytes());
  const Header opened = other.hear(Type::seed_wanted).header;
  const std::uint64_t round = opened.clock;
  CHECK(opened.key == 1);
  CHECK(worker.hear(Type::seed_wanted).header.key == 0);
  worker.say_floats(seed_header(0, 0, round), Numbers{1, 2, 3, 4});
  other.say(Type::seed_wanted, round - 1);
  other.say(Type::seed_wanted, round);
  CHECK(worker.hear(Type::seed_wanted).header.key == 1);
  worker.ready();
  worker.say(Type::seeded, round, 1);
  worker.say(Type::finish);
  worker.say(Type::pull, 0, 0);
  worker.hear_weights(0, 0, 0, {1, 2, 3, 4});  // the worker gets no work before
  other.say(Type::seeded, round);
  worker.hear_work(0, 0);

  worker.say_floats(push_header(0, 0, slice_of(0, 4)), Numbers{2, 2, 2, 2});
  worker.hear_weights(0, 1, 1, {0, 1, 2, 3});
  worker.hear_accepted(0, 0, 0);
  worker.done(0, 0);
  const Event event = other.hear(Type::capture);
  const auto capture = decode_capture(event.header, event.payload);
  REQUIRE(capture);
  CHECK(capture->step == 1);
  CHECK(capture->position == 4);
  // Messages of workers about copies are ignored.
  worker.say(Type::captured, 1);
  worker.say(Type::written, 1, 0, 0, 0,
             encode(WrittenMessage{1, capture->aside, {"server-1.safetensors", 1, 2}, ""}));
  worker.say(Type::pull, 1, 0);
  worker.hear_weights(0, 1, 1, {0, 1, 2, 3});
  other.say(Type::captured, 1);
  worker.hear_work(1, 0);
  Snapshot part;
  part.restart(1, 4, 4);
  part.add(0, 4, Numbers{5, 6});
  part.add(1, 4, Numbers{0, 0});
  const Log quiet("test", -1);
  const CheckpointStore store(server.env.checkpoints, 1, quiet);
  const WrittenMessage written{1, capture->aside,
                               store.write(capture->aside, "server-1.safetensors", part, served_tensors), ""};
  other.say(Type::written, 1, 0, 0, 0, encode(written));
  const auto deadline = std::chrono::steady_clock::now() + test::process_patience;
  while (store.newest_step() != 1 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(Milliseconds(1));
  const auto saved = store.load_newest(served_tensors);
  REQUIRE(saved);
  CHECK(saved->step == 1);
  CHECK(saved->position == 4);
  CHECK(std::ranges::equal(saved->parameters, Numbers{0, 1, 2, 3, 5, 6}));

  other.say(Type::join, 1, 0, flag_without);
  CHECK(worker.hear(Type::wait).header.flags == flag_rejoin);
  worker.join(1);
  CHECK(other.hear(Type::seed_wanted).header.clock > round);
  worker.end(ExitCode::terminated);
  server.request_stop();
  other.hear_goodbye(ExitCode::terminated);
  CHECK(server.end() == ProcessEnd{ExitCode::terminated, ""});
  CHECK(server.result().find(R"("checkpoint":1,)") != std::string::npos);
  CHECK(server.has_logged("server/1 has no weights of step 1"));
  CHECK(server.has_logged("server/1 is seeded by worker/0 at step 1; its optimizer state starts at zero"));
}

TEST_CASE("server 0 reports to another server that the run is trained, even if that server connects later") {
  PsProcess server({Role::server, 0}, 1, 2);
  server.config.steps = 1;
  server.start();
  auto other = std::make_unique<PlayedProcess>(PeerId{Role::server, 1});
  other->dial(server);
  PlayedWorker worker(0);
  worker.dial(server);
  worker.join(1);
  other->say(Type::join, 7, 0, 0, 0, PayloadWriter().text("").bytes());  // the server has weights
  worker.seed_all(1);
  CHECK(worker.hear(Type::trained).header.clock == 1);
  worker.report("the result");
  worker.hear_finish("the result");
  CHECK(PayloadReader(other->hear(Type::finish).payload).text() == "the result");
  other = std::make_unique<PlayedProcess>(PeerId{Role::server, 1}, "127.0.0.1:0", 2);
  other->dial(server);
  CHECK(PayloadReader(other->hear(Type::finish).payload).text() == "the result");
  worker.end(ExitCode::trained);
  other->hear_goodbye(ExitCode::trained);
  CHECK(server.end() == ProcessEnd{ExitCode::trained, ""});
}

}  // namespace mlk::rt
