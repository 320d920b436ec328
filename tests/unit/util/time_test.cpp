#include "cli/util/time.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("util/time");

using mlk::parse_duration;
using mlk::parse_time;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST_CASE("parse_time() reads times in the notation of Kubernetes") {
  CHECK(parse_time("1970-01-01T00:00:00Z") == mlk::Time{});
  CHECK(parse_time("2026-11-21T07:40:25Z")->time_since_epoch() == seconds(1795246825));
  CHECK(parse_time("2026-11-21T07:40:25.5Z")->time_since_epoch() ==
        seconds(1795246825) + nanoseconds(500'000'000));
  CHECK(parse_time("2026-11-21T07:40:25.123456789Z")->time_since_epoch() ==
        seconds(1795246825) + nanoseconds(123456789));
  CHECK(parse_time("2024-02-29T00:00:00+00:00")->time_since_epoch() == seconds(1709164800));
  CHECK(parse_time("2024-02-29T01:30:00+01:30") == parse_time("2024-02-29T00:00:00Z"));
  CHECK(parse_time("2024-02-28T16:00:00.5-08:00") == parse_time("2024-02-29T00:00:00.5Z"));
}

TEST_CASE("parse_time() refuses text that is not a time") {
  for (const char* text :
       {"", "2026", "2026-11-21", "2026-11-21 07:40:25Z", "2026-13-21T07:40:25Z", "2026-11-21T25:40:25Z",
        "2026-11-21T07:40:25", "2026-11-21T07:40:25Zx", "yesterday", "2026-11-21T07:40:25+01",
        "2026-11-21T07:40:25+0100", "2026-11-21T07:40:25+24:00", "2026-11-21T07:40:25+01:60",
        "2026-11-21T07:40:25 01:00", "2026-11-21T07:40:25+01:00x"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(parse_time(text));
  }
}

TEST_CASE("format_time() writes a time in the form that parse_time() reads") {
  for (const char* text : {"1970-01-01T00:00:00Z", "2026-11-21T07:40:25Z", "1969-12-31T23:59:59Z"}) {
    CHECK(mlk::format_time(*parse_time(text)) == text);
  }
  for (const char* text : {"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"}) {
    CAPTURE(text);
    const auto time = parse_time(text);
    REQUIRE(time);
    CHECK((*time > mlk::Time{}) == (text[0] == '9'));
  }
  CHECK(mlk::later(mlk::Time(seconds(5)), -7) == mlk::Time(seconds(-2)));
  for (const std::int64_t far : {INT64_MAX, INT64_MIN}) {
    CHECK((mlk::later(*parse_time("2026-11-21T07:40:25.5Z"), far) > mlk::Time{}) == (far > 0));
  }
  CHECK(mlk::format_time_micro(*parse_time("2026-11-21T07:40:25.123456789Z")) ==
        "2026-11-21T07:40:25.123456Z");
}

TEST_CASE("parse_duration() reads the units s, m, h and d, and a number without a unit as seconds") {
  CHECK(parse_duration("90s") == seconds(90));
  CHECK(parse_duration("15m") == seconds(900));
  CHECK(parse_duration("1h30m") == seconds(5400));
  CHECK(parse_duration("2d") == seconds(172800));
  CHECK(parse_duration("42") == seconds(42));
  CHECK(parse_duration("0") == seconds(0));
  for (const char* text : {"", "s", "-5s", "5x", "1h30", "1.5h", " 5s", "99999999999999999999s", "4000d"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(parse_duration(text));
  }
}

TEST_CASE("format_duration() shows the two largest units") {
  CHECK(mlk::format_duration(seconds(0)) == "0s");
  CHECK(mlk::format_duration(seconds(59)) == "59s");
  CHECK(mlk::format_duration(seconds(200)) == "3m20s");
  CHECK(mlk::format_duration(seconds(7200)) == "2h");
  CHECK(mlk::format_duration(seconds(7500)) == "2h5m");
  CHECK(mlk::format_duration(seconds(273600)) == "3d4h");
  CHECK(mlk::format_duration(seconds(-5)) == "0s");
}

TEST_CASE("past_time() replaces a time in the future by the present time") {
  const mlk::Time now = *mlk::parse_time("2026-11-21T12:00:00Z");
  CHECK(mlk::past_time("2026-11-21T12:00:01Z", now) == "2026-11-21T12:00:00Z");
  CHECK(mlk::past_time("2026-11-21T12:00:00Z", now) == "2026-11-21T12:00:00Z");
  CHECK(mlk::past_time("2026-11-21T11:59:59.5Z", now) == "2026-11-21T11:59:59.5Z");
  CHECK(mlk::past_time("soon", now) == "soon");
  CHECK(mlk::past_time("", now).empty());
}
