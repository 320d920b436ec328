// Driving a sweep of which each trial is a run: starting trials as others end, until all have, or too many
// have failed. All state is what lies in the cluster: a driver may be killed at any moment, and another goes
// on. Trials may have been indexes of Jobs before: those go on by themselves, and count among the trials that
// run at the same time.
#pragma once

#include <chrono>
#include <functional>

#include "sweeps/lease.h"
#include "sweeps/observe.h"
#include "sweeps/start.h"

namespace mlk::sweeps {

struct DriveHooks {
  SubmitHooks submit;
  std::function<void(const SweepStatus&)> changed;         // how things stand, after every change
  std::function<void(const std::string& holder)> waiting;  // somebody else drives the sweep
  std::chrono::milliseconds judge_every{2000};  // trials that run, by what their logs say; for early stopping
  LeaseTimes lease{};
};

// Creates what the sweep consists of beside its trials; trials are started by drive(). A sweep that the
// cluster has run by itself is driven from now on. Throws as submit_run().
Started prepare_driven(kube::Client& client, const StartRequest& request, const SubmitHooks& hooks);

// Until the sweep has ended or is stopped. While another process drives it this one waits, and takes over
// when that one is gone. Throws Error, also the one of DriveHooks::submit.check_interrupted.
SweepStatus drive(kube::Client& client, const StartRequest& request, const DriveHooks& hooks);

}  // namespace mlk::sweeps
