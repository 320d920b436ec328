// The objective of a sweep, and how the metrics of a trial become one number. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/yaml/problems.h"
#include "cli/yaml/yaml.h"

namespace mlk::sweeps {

struct Objective {
  enum class Goal { minimize, maximize };
  enum class Of { last, best, mean };  // which reported values of a trial become its objective
  Goal goal = Goal::minimize;
  std::string metric;  // "accuracy"
  Of of = Of::last;
  int count = 1;                  // for `mean`, how many of the last values
  std::string regex;              // its first group finds the value in a line of the log; empty: no regex
  std::string position = "step";  // the unit of a trial's progress: step, or epoch
};

// Reads an objective from an experiment file: `maximize accuracy`, or a map {maximize: accuracy, of:
// last|best|mean, count: 10, regex: 'acc: (\S+)'}. Messages call the objective `path`. nullopt after adding
// at least one problem.
std::optional<Objective> read_objective(const YamlNode& node, const std::string& path, Problems& problems);

// Why the text cannot be the regex of an objective, worded to follow "regex " in a message; empty if it is
// valid. A valid regex is a pattern (cli/util/pattern.h) with a group.
std::string why_no_regex(const std::string& text);

// Whether `a` is better than `b`. Neither may be NaN.
bool is_better(const Objective& objective, double a, double b);

// The one number of a trial, from its reports (step and value) in the order of reporting. If there are fewer
// than `count` reports, the mean is over all reports. `best` uses only the finite values. nullopt without
// reports, and for a trial that diverged. A trial diverged if the last value (for `last`), any value in the
// mean (for `mean`), or every value (for `best`) is NaN or infinite.
std::optional<double> value_of(const Objective& objective,
                               const std::vector<std::pair<std::int64_t, double>>& reports);

}  // namespace mlk::sweeps
