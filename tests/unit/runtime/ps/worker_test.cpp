// A whole worker before servers that the test plays: every message that it sends, in order, and the files
// that it leaves.
#include "runtime/ps/worker.h"

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/runtime/served_worker.h"

TEST_SUITE_BEGIN("runtime/ps/worker");

namespace mlk::rt {
namespace {

using nlohmann::json;
using served::PlayedServer;
using served::ServedWorker;
using served::shifted;
using served::tested_worker;
using test::Numbers;
using test::ProcessEnd;
using Type = MessageType;

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
  // When the worker joins again, its step is the newest one whose weights have all arrived.
  server.weights(weights, 4, 4);
  server.say(Type::wait, 0, 0, flag_rejoin);
  CHECK(server.hear_join(4).position == 80 + 2 * 4);
  server.hear_ready();
  run.finish();
}

TEST_CASE("sync: a worker pulls only those weights of a step that the server has not sent unasked") {
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

TEST_CASE("a worker that gets SIGTERM finishes its slice, reports it, and leaves") {
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

TEST_CASE("if a worker gets SIGTERM while it waits for work, it leaves at once") {
  ServedWorker run(1);
  run.begin();
  run.worker.request_stop();
  run.server().hear_goodbye(ExitCode::terminated);
  CHECK(run.worker.end() == ProcessEnd{ExitCode::terminated, ""});
}

}  // namespace mlk::rt
