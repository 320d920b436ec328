// Tests the status of a sweep that nobody drives.
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/sweeps/driven_sweep.h"

TEST_SUITE_BEGIN("sweeps/trials/undriven");

using namespace mlk;
using namespace mlk::sweeps;
using test::DrivenSweep;

TEST_CASE("if nobody drives a sweep, its status says what starts the waiting trials") {
  DrivenSweep sweep;
  sweep.start(0, "Running");
  CHECK(sweep.status().why == "");  // the Lease was not read
  sweep.objects.lease = {{"spec", {{"holderIdentity", ""}}}};
  const std::string typed_again =
      "nobody drives it; 1 of 2 trials wait until its mlk sweep command is typed again";
  CHECK(sweep.status().phase == Phase::running);
  CHECK(sweep.status().why == typed_again);
  sweep.end(0, true);
  sweep.objects.pods.clear();
  CHECK(sweep.status().why == typed_again);
  DrivenSweep over = sweep, stopped = sweep, driven = sweep;
  over.mark(annotations::phase, "Succeeded");
  CHECK(over.status().why == "");
  stopped.mark(annotations::stopped);
  CHECK(stopped.status().why == "");
  driven.add_driver();
  CHECK(driven.status().why == "no trial runs: its driver is being started");
  sweep.start(1);  // the trial has a run, which will start by itself
  CHECK(sweep.status().why.find("nobody") == std::string::npos);
  sweep.end(1, true);
  CHECK(sweep.status().why ==
        "nobody drives it; all trials have ended: its mlk sweep command, typed again, says how");
}
