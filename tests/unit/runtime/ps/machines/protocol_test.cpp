// The messages between workers and parameter servers, encoded and decoded.
#include "runtime/ps/machines/protocol.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("runtime/ps/machines/protocol");

using namespace mlk::rt;

namespace {

Progress some_progress() {
  Progress progress;
  progress.loss_sum = 1.5;
  progress.loss_count = 3;
  progress.staleness = {4, 2, 3};
  progress.run = {5, 6, 7, 8, 9};
  return progress;
}

void check_same(const Progress& a, const Progress& b) {
  CHECK(a.loss_sum == b.loss_sum);
  CHECK(a.loss_count == b.loss_count);
  CHECK(a.staleness.sum == b.staleness.sum);
  CHECK(a.staleness.most == b.staleness.most);
  CHECK(a.staleness.count == b.staleness.count);
  CHECK(a.run.workers == b.run.workers);
  CHECK(a.run.generation == b.run.generation);
  CHECK(a.run.restarts == b.run.restarts);
  CHECK(a.run.lost_samples == b.run.lost_samples);
  CHECK(a.run.slowest == b.run.slowest);
}

}  // namespace

TEST_CASE("the messages `ready`, `work` and `trained` decode to the content that was encoded") {
  const auto ready = decode_ready(encode(ReadyMessage{true, 7, 2, 0.5, 0.25, 3}));
  REQUIRE(ready);
  CHECK(ready->done);
  CHECK(ready->clock == 7);
  CHECK(ready->slice == 2);
  CHECK(ready->loss == 0.5);
  CHECK(ready->seconds == 0.25);
  CHECK(ready->staleness == 3);

  WorkMessage sent;
  sent.position = 640;
  sent.own_slices = 11;
  sent.others_slices = 9;
  sent.samples = 64;
  sent.run_position = 500;
  sent.restored_step = 3;
  sent.reports = true;
  sent.progress = some_progress();
  const auto work = decode_work(encode(sent));
  REQUIRE(work);
  CHECK(work->position == 640);
  CHECK(work->own_slices == 11);
  CHECK(work->others_slices == 9);
  CHECK(work->samples == 64);
  CHECK(work->run_position == 500);
  CHECK(work->restored_step == 3);
  CHECK(work->reports);
  check_same(work->progress, sent.progress);

  Progress nobody_slow = some_progress();
  nobody_slow.run.slowest.reset();
  const auto trained = decode_trained(encode(TrainedMessage{1000, 20, nobody_slow}));
  REQUIRE(trained);
  CHECK(trained->run_position == 1000);
  CHECK(trained->checkpoint == 20);
  check_same(trained->progress, nobody_slow);
}

TEST_CASE("the messages `capture` and `written` decode to the encoded content, with the step in the header") {
  Header header;
  header.clock = 30;
  header.generation = 4;
  const auto capture = decode_capture(header, encode(CaptureMessage{30, 1920, ".tmp-30"}));
  REQUIRE(capture);
  CHECK(capture->step == 30);
  CHECK(capture->position == 1920);
  CHECK(capture->aside == ".tmp-30");

  const auto written = decode_written(
      header, encode(WrittenMessage{30, ".tmp-30", {"server-1.safetensors", 512, 77}, "disk full"}));
  REQUIRE(written);
  CHECK(written->step == 30);
  CHECK(written->aside == ".tmp-30");
  CHECK(written->file == WrittenFile{"server-1.safetensors", 512, 77});
  CHECK(written->reason == "disk full");
}

TEST_CASE("a message that is cut short or too long is refused") {
  Bytes work = encode(WorkMessage()), ready = encode(ReadyMessage()), trained = encode(TrainedMessage());
  for (Bytes* bytes : {&work, &ready, &trained}) bytes->pop_back();
  CHECK_FALSE(decode_work(work));
  CHECK_FALSE(decode_ready(ready));
  CHECK_FALSE(decode_trained(trained));
  for (Bytes* bytes : {&work, &ready, &trained}) bytes->resize(bytes->size() + 2);
  CHECK_FALSE(decode_work(work));
  CHECK_FALSE(decode_ready(ready));
  CHECK_FALSE(decode_trained(trained));
}
