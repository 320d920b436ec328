// What a sweep optimises, and how a trial's metrics become one number. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mlk::sweeps {

struct Objective {
  enum class Goal { minimize, maximize };
  enum class Of { last, best, mean };  // which of the values that a trial reports
  Goal goal = Goal::minimize;
  std::string metric;  // "accuracy"
  Of of = Of::last;
  int count = 1;      // of `mean`: the last so many values
  std::string regex;  // finds the value in lines of the log, by its first group; empty: metrics lines
};

// Whether `a` is the better one. Neither is NaN.
bool is_better(const Objective& objective, double a, double b);

}  // namespace mlk::sweeps
