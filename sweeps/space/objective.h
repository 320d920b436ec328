// The objective of a sweep, and how the metrics of a trial become one number. Pure.
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
  enum class Of { last, best, mean };  // of the values that a trial reports
  Goal goal = Goal::minimize;
  std::string metric;  // "accuracy"
  Of of = Of::last;
  int count = 1;      // of `mean`: the number of last values
  std::string regex;  // finds the value in lines of the log by its first group; empty: metrics lines
  std::string position = "step";  // in which lines give a trial's progress: step, or epoch
};

// From an experiment file: `maximize accuracy`, or a map {maximize: accuracy, of: last|best|mean, count: 10,
// regex: 'acc: (\S+)'}. Messages call it `path`. nullopt after adding at least one problem.
std::optional<Objective> read_objective(const YamlNode& node, const std::string& path, Problems& problems);

// Why the text is no regex of an objective, as words behind "regex "; empty if it is one. It is a pattern
// (cli/util/pattern.h) with a group.
std::string why_no_regex(const std::string& text);

// Whether `a` is better than `b`. Neither may be NaN.
bool is_better(const Objective& objective, double a, double b);

// The one number of a trial, from its reports (step and value) in the order in which it made them. The mean
// of fewer than `count` reports is the mean of all. nullopt if there are none, and if the trial diverged: the
// last value, or one of those in the mean, is NaN or infinite. `best` uses only the finite values.
std::optional<double> value_of(const Objective& objective,
                               const std::vector<std::pair<std::int64_t, double>>& reports);

}  // namespace mlk::sweeps
