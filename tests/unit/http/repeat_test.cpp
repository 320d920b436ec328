#include "cli/http/repeat.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace mlk::http;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = Failure::Kind;

TEST_CASE("a request is sent again if the server cannot have got it, or may carry it out twice") {
  struct Row {
    const char* what;
    Attempt attempt;
    int wait;  // ms; -1: it is not
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
      {"a stream, busy", {.status = 429, .retry_after = seconds(0), .is_stream = true}, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const auto wait = repeat_after(row.attempt);
    CHECK((wait ? wait->count() : -1) == row.wait);
  }
}
