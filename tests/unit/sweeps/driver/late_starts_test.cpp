#include "sweeps/driver/late_starts.h"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("sweeps/driver/late_starts");

using namespace mlk::sweeps;
using namespace std::chrono_literals;

namespace {

constexpr std::chrono::steady_clock::time_point begin{};

SweepStatus waiting(const std::map<int, std::string>& runs) {
  SweepStatus status;
  for (const auto& [number, run] : runs) {
    status.waits_for[number] = "";
    status.newest_runs[number] = run;
  }
  return status;
}

}  // namespace

TEST_CASE("a run is late if it has waited for longer than the timeout") {
  LateStarts late(10s);
  CHECK_FALSE(late.contains("a", begin + 1h));
  late.observe(waiting({{0, "a"}}), begin);
  late.observe(waiting({{0, "a"}, {1, "b"}}), begin + 5s);
  CHECK_FALSE(late.contains("a", begin + 10s));
  CHECK(late.contains("a", begin + 11s));
  CHECK_FALSE(late.contains("b", begin + 15s));
  CHECK(late.contains("b", begin + 16s));
}

TEST_CASE("the waiting time of a run begins again if the run waits a second time") {
  LateStarts late(10s);
  late.observe(waiting({{0, "a"}}), begin);
  late.observe(waiting({}), begin + 5s);
  late.observe(waiting({{0, "a"}}), begin + 20s);
  CHECK_FALSE(late.contains("a", begin + 30s));
  CHECK(late.contains("a", begin + 31s));
  late.observe(waiting({{0, "a-2"}}), begin + 31s);
  CHECK_FALSE(late.contains("a", begin + 31s));
  CHECK_FALSE(late.contains("a-2", begin + 41s));
}

TEST_CASE("without a timeout, no run is late") {
  LateStarts late(0s);
  late.observe(waiting({{0, "a"}}), begin);
  CHECK_FALSE(late.contains("a", begin + 24h));
}
