#include "cli/http/silence.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("http/silence");

using namespace mlk::http;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Step = SilenceStep;

TEST_CASE("next_step() checks a silent connection, and leaves the connection if a new one gets an answer") {
  struct Row {
    const char* what;
    Quiet connection;
    FreshCheck check;
    Step step;
  };
  const auto s = [](int count) { return milliseconds(seconds(count)); };
  const milliseconds ms{1};
  const std::vector<Row> rows = {
      {"not silent for long", {s(20) - ms, true}, {}, Step::wait},
      {"HTTP/2: asked beside", {s(20), true}, {}, Step::ask},
      {"HTTP/2, a request waits: that has asked", {s(20), true, true}, {}, Step::check},
      {"HTTP/1: no place beside", {s(20), false}, {}, Step::check},
      {"asked just now", {s(24), true, false, s(5) - ms}, {}, Step::wait},
      {"asked, no answer", {s(25), true, false, s(5)}, {}, Step::check},
      {"another one is being tried", {s(20), false}, {.under_way = true}, Step::wait},
      {"it has failed just now", {s(40), false}, {.failed = s(5) - ms}, Step::wait},
      {"it failed, once more", {s(40), false}, {.failed = s(5)}, Step::check},
      {"others are answered, but it has time left", {s(30) - ms, false}, {.answered = s(1)}, Step::wait},
      {"others are answered", {s(30), false}, {.answered = s(1)}, Step::leave},
      {"others are answered, a request waits in time",
       {s(25) - ms, false, true},
       {.answered = s(1)},
       Step::wait},
      {"others are answered, a request waits", {s(25), false, true}, {.answered = s(1)}, Step::leave},
      {"the answer came as the suspicion did", {s(30), false}, {.answered = s(10)}, Step::leave},
      {"the answer is older than the suspicion", {s(30), false}, {.answered = s(10) + ms}, Step::check},
      {"the same, HTTP/2, asked", {s(30), true, false, s(10)}, {.answered = s(11)}, Step::check},
      {"HTTP/2, answered elsewhere before it was asked", {s(21), true}, {.answered = s(1)}, Step::ask},
      {"nothing is answered for long", {s(600), true, false, s(580)}, {.failed = s(3)}, Step::wait},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(next_step(row.connection, row.check, SilenceTimes{}) == row.step);
  }
}

TEST_CASE("the silence of a connection grows only while requests are in progress") {
  const SteadyTime begin{};
  const auto at = [&](int second) { return begin + seconds(second); };
  Silence silence;
  silence.begin(at(0));
  silence.heard(at(1));
  CHECK(silence.at(at(11)).silent == seconds(10));
  silence.end(at(11));
  CHECK_FALSE(silence.expects());
  CHECK(silence.at(at(500)).silent == seconds(10));
  silence.begin(at(500));  // a request that was abandoned in silence does not shorten the silence
  silence.begin(at(501));
  CHECK(silence.expects());
  CHECK(silence.at(at(505)).silent == seconds(15));
  silence.asked(at(505));
  CHECK(silence.at(at(507)).asked == seconds(2));
  silence.end(at(507));
  CHECK(silence.at(at(510)).silent == seconds(20));
  silence.end(at(510));
  silence.begin(at(600));
  silence.end(at(602));  // all silences before it count too
  CHECK(silence.at(at(700)).silent == seconds(22));
  silence.begin(at(700));
  CHECK(silence.at(at(701)).silent == seconds(23));
  silence.heard(at(711));
  CHECK(silence.at(at(712)).silent == seconds(1));
  CHECK_FALSE(silence.at(at(712)).asked);
}

TEST_CASE("SilenceTimes decides when a silent connection is checked and when it is given up") {
  const SilenceTimes times{.suspect = milliseconds(100), .leave = milliseconds(200)};
  const auto step = [&](int silent, bool owes, const FreshCheck& check) {
    return next_step({milliseconds(silent), false, owes}, check, times);
  };
  CHECK(step(99, false, {}) == Step::wait);
  CHECK(step(100, false, {}) == Step::check);
  CHECK(step(199, false, {.answered = milliseconds(1)}) == Step::wait);
  CHECK(step(200, false, {.answered = milliseconds(1)}) == Step::leave);
  CHECK(step(149, true, {.answered = milliseconds(1)}) == Step::wait);
  CHECK(step(150, true, {.answered = milliseconds(1)}) == Step::leave);
  CHECK(step(400, true, {.failed = milliseconds(49)}) == Step::wait);
  CHECK(step(400, true, {.failed = milliseconds(50)}) == Step::check);
}
