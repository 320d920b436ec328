// What a sweep optimises, and how a trial's metrics become one number. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/experiment/problems.h"
#include "cli/experiment/yaml.h"

namespace mlk::sweeps {

struct Objective {
  enum class Goal { minimize, maximize };
  enum class Of { last, best, mean };  // which of the values that a trial reports
  Goal goal = Goal::minimize;
  std::string metric;  // "accuracy"
  Of of = Of::last;
  int count = 1;      // of `mean`: the last so many values
  std::string regex;  // finds the value in lines of the log, by its first group; empty: metrics lines
  std::string position = "step";  // what lines count the way of a trial in: step, or epoch
};

// Of an experiment file: `maximize accuracy`, or a map
// {maximize: accuracy, of: last|best|mean, count: 10, regex: 'acc: (\S+)'}. `path` is what messages call it.
// nullopt after adding at least one problem.
std::optional<Objective> read_objective(const YamlNode& node, const std::string& path, Problems& problems);

// Whether `a` is the better one. Neither is NaN.
bool is_better(const Objective& objective, double a, double b);

// The one number of a trial, of its reports (step and value) in the order in which it made them; of fewer
// than `count` the mean of all. nullopt when there are none, and when the trial diverged: the last value, or
// one of those of the mean, is NaN or infinite. The best is that of the finite values.
std::optional<double> value_of(const Objective& objective,
                               const std::vector<std::pair<std::int64_t, double>>& reports);

}  // namespace mlk::sweeps
