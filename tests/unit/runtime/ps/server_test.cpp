// A whole server among workers and servers that the test plays: every message that it sends, in order.
#include "runtime/ps/server.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "runtime/checkpoint/checkpoint.h"
#include "tests/unit/runtime/played_worker.h"

TEST_SUITE_BEGIN("runtime/ps/server");

namespace mlk::rt {
namespace {

using test::join_payload;
using test::LoneServer;
using test::Numbers;
using test::PlayedWorker;
using test::ProcessEnd;
using test::push_header;
using test::seed_header;
using test::served_tensors;
using test::slice_of;
using Type = MessageType;

}  // namespace

TEST_CASE("with sync, a server leads two workers through a run, and sends the result to both") {
  LoneServer run(2);
  run.server.config.steps = 2;
  run.server.env.checkpoints = run.server.file("checkpoints");
  run.server.start();
  PlayedWorker& first = run.come(0);
  PlayedWorker& second = run.come(1);
  first.join();
  second.join();
  first.seed_all();

  first.ready();
  WorkMessage work = first.hear_work(0, 0);
  CHECK(first.generation == 2);
  CHECK(work.position == 0);
  CHECK(work.samples == 4);
  CHECK(work.run_position == 0);
  CHECK(work.reports);
  CHECK(work.progress.run.workers == 2);
  second.ready();
  work = second.hear_work(0, 1);
  CHECK(second.generation == 2);
  CHECK(work.position == 4);
  CHECK_FALSE(work.reports);

  first.say(Type::pull, 0, 1);
  first.hear_weights(1, 0, 0, {5, 6});
  first.say(Type::pull, 0, 7);  // no such chunk exists
  first.say(Type::pull, 3, 0);  // no server has these weights yet
  first.say_floats(push_header(0, 0, slice_of(0, 4)), Numbers{1, 1, 1, 1});
  first.hear_accepted(0, 0, 0);
  second.say_floats(push_header(0, 0, slice_of(1, 4)), Numbers{3, 3, 3, 3});
  first.hear_weights(0, 1, 1, {0, 1, 2, 3});
  second.hear_weights(0, 1, 1, {0, 1, 2, 3});
  second.hear_accepted(0, 0, 0);
  // The server still has the weights of the previous step, for a worker that is late.
  second.say(Type::pull, 0, 0);
  second.hear_weights(0, 0, 0, {1, 2, 3, 4});
  second.say_floats(push_header(1, 0, slice_of(1, 12)), Numbers{8, 0});
  second.hear_accepted(1, 0, 0);
  first.say_floats(push_header(1, 0, slice_of(0, 4)), Numbers{0, 4});
  first.hear_weights(1, 1, 1, {2, 5.5});
  first.hear_accepted(1, 0, 0);
  second.hear_weights(1, 1, 1, {2, 5.5});
  first.done(0, 0, 2);
  second.done(0, 1, 3);
  work = first.hear_work(1, 0);
  CHECK(work.position == 8);
  CHECK(work.run_position == 8);
  CHECK(work.progress.loss_sum == 5);
  CHECK(work.progress.loss_count == 2);
  CHECK(work.checkpoint == 0);
  CHECK(second.hear_work(1, 1).position == 12);

  for (std::uint32_t chunk = 0; chunk < 2; ++chunk) {
    const Numbers zeros(chunk == 0 ? 4 : 2, 0.0f);
    const Numbers same = chunk == 0 ? Numbers{0, 1, 2, 3} : Numbers{2, 5.5};
    first.say_floats(push_header(chunk, 1, slice_of(0, 4)), zeros);
    first.hear_accepted(chunk, 1, 0);
    second.say_floats(push_header(chunk, 1, slice_of(1, 4)), zeros);
    second.hear_weights(chunk, 2, 2, same);
    second.hear_accepted(chunk, 1, 0);
    first.hear_weights(chunk, 2, 2, same);
  }
  first.done(1, 0, 0.5);
  second.done(1, 1, 0.25);
  const Event trained = first.hear(Type::trained);
  CHECK(trained.header.clock == 2);
  const auto message = decode_trained(trained.payload);
  REQUIRE(message);
  CHECK(message->run_position == 16);
  CHECK(message->checkpoint == 2);
  CHECK(message->progress.loss_sum == 0.75);
  first.report("the result");
  first.hear_finish("the result");
  second.hear_finish("the result");
  second.join();  // the join message was already under way
  second.hear_finish("the result");
  second.ready();
  second.hear_finish("the result");
  second.report("another");
  first.end(ExitCode::trained);
  second.end(ExitCode::trained);
  CHECK(run.server.end() == ProcessEnd{ExitCode::trained, ""});
  CHECK(run.server.result().starts_with(R"({"schema":1,"rank":0,"done":true,"message":""})"));
  CHECK(run.server.metrics().empty());
  const Log quiet("test", -1);
  const auto saved = CheckpointStore(run.server.env.checkpoints, 1, quiet).load_newest(served_tensors);
  REQUIRE(saved);
  CHECK(saved->step == 2);
  CHECK(saved->position == 16);
  CHECK(std::ranges::equal(saved->parameters, Numbers{0, 1, 2, 3, 2, 5.5}));
}

TEST_CASE(
    "with sync, a push of a wrong size, chunk, slice or step gets the answer `flag_behind`, and a repeated "
    "push counts once") {
  LoneServer run(2);
  run.server.start();
  PlayedWorker& first = run.come(0);
  first.say_floats(push_header(0, 0, slice_of(0, 4)), Numbers{1, 1, 1, 1});  // no model, so no answer
  first.say(Type::pull, 0, 0);
  PlayedWorker& second = run.come(1);
  first.join();
  second.join();
  first.seed_all();
  first.ready();
  first.hear_work(0, 0);
  first.say_floats(push_header(0, 0, slice_of(0, 4)), Numbers{1, 1, 1});
  first.hear_accepted(0, 0, flag_behind);
  first.say_floats(push_header(2, 0, slice_of(0, 4)), Numbers{1, 1, 1, 1});
  first.hear_accepted(2, 0, flag_behind);
  first.say_floats(push_header(0, 0, slice_of(2, 4)), Numbers{1, 1, 1, 1});
  first.hear_accepted(0, 0, flag_behind);
  first.say_floats(push_header(0, 1, slice_of(0, 4)), Numbers{1, 1, 1, 1});
  first.hear_accepted(0, 1, flag_behind);
  first.say_floats(push_header(0, 0, slice_of(1, 2)), Numbers{2, 2, 2, 2});
  first.hear_accepted(0, 0, 0);
  first.say_floats(push_header(0, 0, slice_of(1, 2)), Numbers{9, 9, 9, 9});
  first.hear_accepted(0, 0, 0);
  first.say_floats(push_header(0, 0, slice_of(0, 2)), Numbers{0, 0, 0, 0});
  first.hear_weights(0, 1, 1, {0.5, 1.5, 2.5, 3.5});
  first.hear_accepted(0, 0, 0);
  run.stop();
  CHECK(run.server.result().starts_with(R"({"schema":1,"rank":0,"done":false,"message":"terminated"})"));
}

TEST_CASE("async: every push is answered with the newest weights, and counts once") {
  LoneServer run(1, false);
  run.server.config.steps = 3;
  run.server.start();
  PlayedWorker& worker = run.come(0);
  worker.join();
  worker.seed_all();
  worker.ready();
  CHECK(worker.hear_work(0, 0).progress.staleness.count == 0);
  worker.say(Type::pull, 1, 0);
  worker.hear_weights(0, 1, 0, {1, 2, 3, 4});
  worker.say(Type::pull, 1, 1);
  worker.hear_weights(1, 1, 0, {5, 6});
  worker.say_floats(push_header(0, 2, 0), Numbers{1, 1, 1, 1});
  worker.hear_weights(0, 2, 1, {0.5, 1.5, 2.5, 3.5});
  worker.say_floats(push_header(0, 2, 0), Numbers{1, 1, 1, 1});  // the same push again changes nothing
  worker.hear_weights(0, 2, 1, {0.5, 1.5, 2.5, 3.5});
  worker.say_floats(push_header(0, 3, 0), Numbers{2, 2, 2, 2});  // misses one update: half the step
  worker.hear_weights(0, 3, 2, {0, 1, 2, 3});
  worker.say_floats(push_header(1, 2, 0), Numbers{2, 4});
  worker.hear_weights(1, 2, 1, {4, 4});
  worker.say_floats(push_header(1, 3, 0), Numbers{2});
  worker.hear_accepted(1, 3, flag_behind);
  worker.say_floats(push_header(9, 3, 0), Numbers{2});
  worker.hear_accepted(9, 3, flag_behind);
  worker.say(Type::pull, 4, 1);
  worker.hear_weights(1, 4, 1, {4, 4});
  worker.done(0, 0, 2);
  const WorkMessage next = worker.hear_work(1, 0);
  CHECK(next.progress.loss_sum == 2);
  CHECK(next.progress.staleness.count == 3);
  CHECK(next.progress.staleness.sum == 1);
  CHECK(next.progress.staleness.most == 1);
  worker.done(1, 0);
  worker.hear_work(2, 0);
  worker.done(2, 0);
  CHECK(worker.hear(Type::trained).header.clock == 3);
  worker.report("done");
  worker.hear_finish("done");
  worker.end(ExitCode::trained);
  CHECK(run.server.end() == ProcessEnd{ExitCode::trained, ""});
}

TEST_CASE("a worker with another model than the others ends the run with bad_configuration") {
  LoneServer run(2);
  run.server.start();
  PlayedWorker& first = run.come(0);
  first.say(Type::join, 0, 0, 0, 0, join_payload({}));  // a join message without a model is ignored
  first.say(Type::join);                                // this message cannot be decoded
  first.join();
  PlayedWorker& second = run.come(1);
  second.join(0, {{"w", {2, 2}, 0, 4}, {"b", {3}, 4, 3}});
  second.hear_goodbye(ExitCode::bad_configuration);
  first.hear_goodbye(ExitCode::bad_configuration);
  CHECK(run.server.end() ==
        ProcessEnd{ExitCode::bad_configuration, "worker/1 has another model than the others"});
}

TEST_CASE("seeds of another round are dropped, and seeds of the wrong size are refused") {
  LoneServer run(1);
  run.server.start();
  PlayedWorker& worker = run.come(0);
  worker.say_floats(seed_header(0, 0, 1), Numbers{1, 2, 3, 4});
  worker.join();
  const std::uint64_t round = worker.hear(Type::seed_wanted).header.clock;
  worker.say_floats(seed_header(0, 0, round + 1), Numbers{9, 9, 9, 9});
  worker.say_floats(seed_header(1, 0, round - 1), Numbers{9, 9});
  worker.say_floats(seed_header(0, 0, round), Numbers{9, 9, 9});
  worker.ready();
  worker.say_floats(seed_header(0, 0, round), Numbers{1, 2, 3, 4});
  worker.say(Type::pull, 0, 0);
  worker.hear_weights(0, 0, 0, {1, 2, 3, 4});
  worker.say(Type::pull, 0, 1);  // no answer: chunk 1 has no weights yet
  // The optimizer's state follows the weights.
  worker.say_floats(seed_header(1, 0, round, flag_optimizer), Numbers{5, 6, 7, 8});
  worker.hear_work(0, 0);
  worker.say_floats(seed_header(1, 0, round), Numbers{9, 9});  // the round is over
  worker.say(Type::pull, 0, 1);
  worker.hear_weights(1, 0, 0, {5, 6});
  run.stop();
  CHECK(run.server.has_logged("worker/0 sent weights that do not fit"));
  CHECK(run.server.has_logged("dropped 4 messages that came too late"));
}

TEST_CASE("a server is seeded again if a worker needs the weights of a step that the server no longer has") {
  LoneServer run(1);
  run.server.start();
  PlayedWorker& worker = run.come(0);
  worker.join();
  worker.seed_all();
  worker.ready();
  worker.hear_work(0, 0);
  for (std::uint64_t clock = 0; clock < 2; ++clock) {
    worker.say_floats(push_header(0, clock, slice_of(0, 4)), Numbers{0, 0, 0, 0});
    worker.hear_weights(0, clock + 1, clock + 1, {1, 2, 3, 4});
    worker.hear_accepted(0, clock, 0);
  }
  worker.say(Type::pull, 0, 0);  // the server is at step 2, and still has step 1
  CHECK(worker.hear(Type::wait).header.flags == flag_rejoin);
  worker.join();
  CHECK(worker.hear(Type::seed_wanted).header.key == 0);
  run.stop();
  CHECK(run.server.has_logged("server/0 has no weights of step 0"));
}

TEST_CASE("if a worker is cut off from another server, the worker is not a member until it joins again") {
  LoneServer run(2);
  run.server.start();
  PlayedWorker& first = run.come(0);
  PlayedWorker& second = run.come(1);
  first.join();
  second.join();
  first.seed_all();
  first.ready();
  first.hear_work(0, 0);
  second.ready();
  second.hear_work(0, 1);
  second.say(Type::cut_off);
  second.say(Type::pull, 0, 1);
  second.hear_weights(1, 0, 0, {5, 6});  // the server handles the pull before the next messages
  first.done(0, 0);
  const WorkMessage work = first.hear_work(0, 1);  // the slice of the other worker
  CHECK(work.progress.run.workers == 1);
  CHECK(work.progress.run.restarts == 1);
  second.ready();
  CHECK(second.hear(Type::wait).header.flags == flag_rejoin);
  second.join();
  second.ready();
  run.stop();
}

}  // namespace mlk::rt
