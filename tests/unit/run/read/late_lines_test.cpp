#include "cli/run/read/late_lines.h"

#include <csignal>

#include <doctest/doctest.h>

#include "cli/run/state/status.h"

TEST_SUITE_BEGIN("run/read/late_lines");

using namespace mlk;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST_CASE("may_have_late_lines() is true if `now` and the program's end differ by less than ten seconds") {
  const Time now = *parse_time("2026-11-27T10:00:00Z");
  CHECK(may_have_late_lines(now, now));
  CHECK(may_have_late_lines(now - 9s, now));
  CHECK(may_have_late_lines(now + 9s, now));
  CHECK_FALSE(may_have_late_lines(now - 10s, now));
  CHECK_FALSE(may_have_late_lines(now + 10s, now));
  CHECK_FALSE(may_have_late_lines(std::nullopt, now));
}

TEST_CASE("read_late_lines() reads a log again at most five times") {
  int readings = 0;
  const auto read = [&] { ++readings; };
  CHECK(read_late_lines([] { return false; }, read, steady_clock::now()));
  CHECK(readings == 0);
  CHECK(read_late_lines([&] { return readings < 2; }, read, steady_clock::now() + 1h));
  CHECK(readings == 2);
  CHECK(read_late_lines([] { return true; }, read, steady_clock::now() + 1h));
  CHECK(readings == 7);
  CHECK_FALSE(read_late_lines([] { return true; }, read, steady_clock::now() + 100ms));
  CHECK(readings == 7);
}

namespace {

const Time now = *parse_time("2026-11-27T10:00:00Z");

RunStatus failed(const std::string& message, int exit_code = 1, Time at = now - 9s) {
  RunStatus status;
  status.phase = Phase::failed;
  status.first_failure.emplace();
  status.first_failure->exit_code = exit_code;
  status.first_failure->message = message;
  status.first_failure->at = at;
  return status;
}

RunStatus succeeded(const nlohmann::json& result, Time ended = now - 9s) {
  RunStatus status;
  status.phase = Phase::succeeded;
  status.result = result;
  status.ended = ended;
  return status;
}

}  // namespace

TEST_CASE("may_complete_record() is true if a run has just succeeded but has no result") {
  CHECK(may_complete_record(succeeded(nullptr), now));
  CHECK_FALSE(may_complete_record(succeeded({{"step", 1}}), now));
  CHECK_FALSE(may_complete_record(succeeded(nullptr, now - 10s), now));
  RunStatus running = succeeded(nullptr);
  running.phase = Phase::running;
  CHECK_FALSE(may_complete_record(running, now));
}

TEST_CASE("may_complete_record() is true if a program has just failed and its error message is missing") {
  CHECK(may_complete_record(failed(""), now));
  CHECK(may_complete_record(failed("cloning"), now));
  CHECK_FALSE(may_complete_record(failed("ValueError: bad lr"), now));
  CHECK_FALSE(may_complete_record(failed("", 1, now - 10s), now));
  CHECK_FALSE(may_complete_record(failed("", 0), now));
  CHECK_FALSE(may_complete_record(failed("", -1), now));

  RunStatus aborted = failed("", 128 + SIGABRT);
  aborted.first_failure->signal = SIGABRT;
  CHECK(may_complete_record(aborted, now));
  RunStatus killed = failed("", 128 + SIGKILL);
  killed.first_failure->signal = SIGKILL;
  CHECK_FALSE(may_complete_record(killed, now));
  RunStatus evicted = failed("");
  evicted.first_failure->disruption = true;
  CHECK_FALSE(may_complete_record(evicted, now));
  RunStatus without_failure = failed("");
  without_failure.first_failure.reset();
  CHECK_FALSE(may_complete_record(without_failure, now));
}
