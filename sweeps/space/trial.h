// A trial: one point of a sweep, and its result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/util/time.h"
#include "sweeps/space/space.h"

namespace mlk::sweeps {

enum class TrialState { waiting, running, succeeded, failed, stopped };
std::string_view to_string(TrialState state);                        // "Waiting", "Running" ...
std::optional<TrialState> parse_trial_state(std::string_view text);  // the inverse

bool has_ended(TrialState state);  // succeeded, failed, stopped

struct Trial {
  int number = 0;    // trials are numbered from 0, in the order of their registration; never changed
  std::string hash;  // of the point (hash_of): the same in every sweep
  Point point;
  TrialState state = TrialState::waiting;
  std::int64_t until = 0;  // the trial may train up to this progress before it is judged; 0: no decision yet
  int tries = 0;           // pods or runs that were started for the trial
  std::int64_t step = 0;   // the step of the last metrics
  nlohmann::json metrics;  // the last metrics, {"loss": 0.1}; null before the first metrics
  std::optional<double> objective;                     // the trial's value of the sweep's objective, if known
  std::vector<std::pair<std::int64_t, double>> curve;  // the objective's metric at some of the steps
  std::string failure;                                 // why it failed or was stopped: one printable line
  std::optional<Time> started, ended;

  bool operator==(const Trial&) const = default;
};

// The verdicts on a trial that exited with 0 and still counts as failed. never_reported(): the trial did not
// report the objective. diverged(): its reports give no finite value. A verdict is stored in Trial::failure.
std::string never_reported(const std::string& metric, const std::string& near_miss = "");
std::string diverged(const std::string& metric);
// Whether `failure` is a verdict.
bool is_verdict(std::string_view failure);

// 12 characters, computed only from the point: from its paths and values. Equal values give the same hash,
// even if they are spelled differently.
std::string hash_of(const Point& point);

}  // namespace mlk::sweeps
