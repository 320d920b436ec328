// Measures how long the runs of trials have waited for their start. Pure.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "sweeps/trials/observe.h"

namespace mlk::sweeps {

class LateStarts {
 public:
  // `timeout`: the start_timeout of the experiment; 0 for no bound.
  explicit LateStarts(std::chrono::seconds timeout) : timeout_(timeout) {}

  // Call this function after each observation. A run that waits again, after a pause or a resume, gets the
  // whole timeout again.
  void observe(const SweepStatus& status, std::chrono::steady_clock::time_point now);

  // Whether the run of this name has waited for longer than the timeout.
  bool contains(const std::string& run, std::chrono::steady_clock::time_point now) const;

  std::chrono::seconds timeout() const { return timeout_; }

 private:
  const std::chrono::seconds timeout_;
  std::map<std::string, std::chrono::steady_clock::time_point> waiting_since_;  // of runs that wait now
};

}  // namespace mlk::sweeps
