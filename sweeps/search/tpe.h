// Search by what was good so far: a Tree-structured Parzen Estimator proposes points, and a smooth function
// that is fitted to all values, with noise, has the larger say in which of these is tried. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sweeps/space/objective.h"
#include "sweeps/space/space.h"

namespace mlk::sweeps {

struct Told {
  Point point;
  std::optional<double> value;  // of the objective; a trial that has ended without a number has failed
  bool running = false;         // not ended: its value is not looked at
};

struct TpeOptions {
  std::uint64_t seed = 1;
  int startup = 10;            // quasi-random points until so many values are known
  std::vector<Point> start{};  // tried first, in this order
};

// The point to try next, after all that was told: points that have ended or run. One that was suggested must
// be told before the next one is asked for. The same space, options and told points in the same order give
// the same suggestion. Never a point that was told, nor one that `except` leaves out; nothing when no more
// are found. Told points that do not fit the space count for the parameters that fit.
std::optional<Point> suggest_tpe(const Space& space, Objective::Goal goal, const TpeOptions& options,
                                 const std::vector<Told>& told);

}  // namespace mlk::sweeps
