#include "cli/http/repeat.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("http/repeat");

using namespace mlk::http;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = Failure::Kind;

TEST_CASE(
    "repeat_after() allows a retry if the request was not received, the server is busy or a repeat is safe") {
  struct Row {
    const char* what;
    Attempt attempt;
    int wait;  // ms; -1: no retry
  };
  const std::vector<Row> rows = {
      {"refused", {.failure = Kind::refused}, 250},
      {"cut in the handshake", {.failure = Kind::handshake}, 250},
      {"a POST that broke", {.failure = Kind::broken}, -1},
      {"a GET that broke", {.failure = Kind::broken, .twice = true}, 250},
      {"a GET that broke again", {.failure = Kind::broken, .twice = true, .attempts = 3}, 1000},
      {"the longest wait", {.failure = Kind::broken, .twice = true, .attempts = 9}, 2000},
      {"the tenth attempt", {.failure = Kind::broken, .twice = true, .attempts = 10}, -1},
      {"just in time", {.failure = Kind::refused, .trying_for = milliseconds(9750)}, 250},
      {"too late", {.failure = Kind::refused, .trying_for = milliseconds(9751)}, -1},
      {"a GET on a dead connection", {.failure = Kind::silent, .twice = true, .trying_for = seconds(25)}, 0},
      {"the third dead connection", {.failure = Kind::silent, .twice = true, .attempts = 3}, -1},
      {"the second dead connection", {.failure = Kind::silent, .twice = true, .attempts = 2}, 0},
      {"a POST on a dead connection", {.failure = Kind::silent}, -1},
      {"a stream is opened by its reader", {.failure = Kind::broken, .twice = true, .is_stream = true}, -1},
      {"a stream, refused", {.failure = Kind::refused, .is_stream = true}, -1},
      {"a stream on a dead connection", {.failure = Kind::silent, .twice = true, .is_stream = true}, -1},
      {"no time left", {.failure = Kind::timed_out, .twice = true}, -1},
      {"a wrong certificate", {.failure = Kind::untrusted, .twice = true}, -1},
      {"no TLS there", {.failure = Kind::tls, .twice = true}, -1},
      {"no such host", {.failure = Kind::resolve, .twice = true}, -1},
      {"the proxy refuses", {.failure = Kind::proxy, .twice = true}, -1},
      {"a good answer", {.status = 200, .retry_after = seconds(1), .twice = true}, -1},
      {"busy", {.status = 429, .retry_after = seconds(2)}, 2000},
      {"busy, and does not say for how long", {.status = 429}, -1},
      {"the last that is not an error of the server", {.status = 499, .retry_after = seconds(2)}, -1},
      {"an error of the server", {.status = 500, .retry_after = seconds(2)}, 2000},
      {"busy for long", {.status = 503, .retry_after = seconds(3600)}, 30'000},
      {"busy, the tenth attempt", {.status = 503, .retry_after = seconds(0), .attempts = 10}, -1},
      {"refused twice", {.failure = Kind::refused, .attempts = 2}, 500},
      {"refused four times", {.failure = Kind::refused, .attempts = 4}, 2000},
      {"refused five times", {.failure = Kind::refused, .attempts = 5}, 2000},
      {"refused nine times", {.failure = Kind::refused, .attempts = 9}, 2000},
      {"refused ten times", {.failure = Kind::refused, .attempts = 10}, -1},
      {"cut in the handshake, a stream", {.failure = Kind::handshake, .is_stream = true}, -1},
      {"a connection without a way, a GET", {.failure = Kind::no_route, .twice = true}, -1},
      {"an answer that is too large", {.failure = Kind::too_large, .twice = true}, -1},
      {"the end", {.failure = Kind::closed, .twice = true}, -1},
      {"a request that breaks with a time to come back",
       {.failure = Kind::broken, .status = 503, .retry_after = seconds(1)},
       -1},
      {"before the status of too many", {.status = 428, .retry_after = seconds(2)}, -1},
      {"after the status of too many", {.status = 430, .retry_after = seconds(2)}, -1},
      {"busy for half a minute", {.status = 503, .retry_after = seconds(30)}, 30'000},
      {"busy for more than half a minute", {.status = 503, .retry_after = seconds(31)}, 30'000},
      {"busy, the ninth attempt", {.status = 503, .retry_after = seconds(1), .attempts = 9}, 1000},
      {"busy, for however long it has been",
       {.status = 503, .retry_after = seconds(1), .trying_for = seconds(600)},
       1000},
      {"a dead connection after long",
       {.failure = Kind::silent, .twice = true, .trying_for = seconds(600)},
       0},
      {"a stream, busy", {.status = 429, .retry_after = seconds(0), .is_stream = true}, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const auto wait = repeat_after(row.attempt);
    CHECK((wait ? wait->count() : -1) == row.wait);
  }
}

TEST_CASE("repeat_after() returns no time if the wait would exceed `longest`") {
  const auto wait = [](int ms) { return repeat_after({.failure = Kind::refused}, milliseconds(ms)); };
  CHECK(wait(250) == milliseconds(250));
  CHECK_FALSE(wait(249));
  CHECK_FALSE(wait(0));
}
