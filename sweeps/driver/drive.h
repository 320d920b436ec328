// Drives a sweep in which each trial is a run: starts trials when other trials end, until all trials have
// ended, too many trials have failed, or the sweep is stopped. Trials that were started as indexes of Jobs
// run without a driver, but they also occupy some of the parallel places.
//
// State: only the objects of the cluster. A driver may be killed at any moment, and another driver continues.
// A Lease names the current driver; other drivers wait.
//
// Callers: `mlk sweep` on the user's machine, and `mlk drive` in the driver's Job.
//
// One round of a driver:
//   read the objects of the sweep (watch.h), and the reports of trials (fetch.h)
//   observe_sweep()      the state of each trial, from the objects alone
//   decide()             pure: the points to start, and the trials to pause, to promote and to stop
//   register the new trials, then create their runs; pause and stop other trials (control.h)
//   wait for a change
//
// Invariants: a trial has its number and its line in a ConfigMap of the sweep before it has a run, so that no
// point is tried twice. From the same objects and reports, every driver makes the same decisions.
#pragma once

#include <chrono>
#include <functional>

#include "sweeps/objects/lease.h"
#include "sweeps/start/start.h"
#include "sweeps/trials/observe.h"

namespace mlk::sweeps {

struct DriveHooks {
  SubmitHooks submit;
  std::function<void(const SweepStatus&)> changed;         // gets the state of the sweep in each round
  std::function<void(const std::string& holder)> waiting;  // called while another process drives the sweep
  std::chrono::milliseconds judge_every{2000};  // how often early stopping reads the logs of running trials
  LeaseTimes lease{};
};

// Runs until the sweep has ended or is stopped. Also returns if all trials that are left were added by
// another command, and are unknown to this one. In this case, the returned status is neither ended nor
// stopped. While another process drives the sweep, this process waits, and takes over when the other process
// is gone. Throws Error, also the Error of DriveHooks::submit.check_interrupted.
SweepStatus drive(kube::Client& client, const StartRequest& request, const DriveHooks& hooks);

}  // namespace mlk::sweeps
