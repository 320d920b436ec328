// Search tpe: a Tree-structured Parzen Estimator proposes points that resemble the best points so far. A
// smooth function is fitted to the values of the best points, since these values may be noisy. The fitted
// function mainly decides which of the proposed points to try. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sweeps/space/objective.h"
#include "sweeps/space/space.h"

namespace mlk::sweeps {

struct Told {
  Point point;
  std::optional<double> value;  // of the objective; a trial without a value has failed if it has ended
  bool running = false;         // the trial has not ended, so its value is ignored
};

struct TpeOptions {
  std::uint64_t seed = 1;
  int startup = 10;            // the search uses quasi-random points until it has so many values
  std::vector<Point> start{};  // points that are tried first, in this order
};

// The point to try next. `told`: the points of all trials that have ended or run; the caller adds each
// suggested point to this list before the next call. The same space, options and told points in the same
// order give the same suggestion. Never suggests a told point or a point that `except` excludes; returns
// nullopt if it finds no other point. If some parameters of a told point do not fit the space, uses only its
// other parameters.
std::optional<Point> suggest_tpe(const Space& space, Objective::Goal goal, const TpeOptions& options,
                                 const std::vector<Told>& told);

}  // namespace mlk::sweeps
