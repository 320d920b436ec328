// The specification of a sweep: its space, its search and its objective, from the file's `sweep:` and the
// words of the command line. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/yaml/problems.h"
#include "cli/yaml/yaml.h"
#include "sweeps/search/search.h"
#include "sweeps/search/stopping.h"
#include "sweeps/space/objective.h"
#include "sweeps/space/space.h"

namespace mlk::sweeps {

// Early stopping: the rule that ends trials before their full length.
struct EarlyStop {
  enum class Rule { none, asha, median };
  Rule rule = Rule::none;
  AshaOptions asha;
  MedianOptions median;
  bool resumes = false;  // for asha: trials keep checkpoints, so they can be paused and resumed
};

// A text for people: what asha does with bad trials, and why. Empty for other rules and without early
// stopping.
std::string describe(const EarlyStop& stop);

struct Spec {
  Space space;
  Search search;
  int repeat = 1;
  int parallel = 4;
  std::optional<int> max_failures;
  std::optional<Objective> objective;
  EarlyStop stop;
  std::string points_file;  // `points:`, as written; empty if there is no `points:`
  Place points_place;
  // The parts of `sweep:` that belong to the sweep's identity: search, objective, stop. The number of trials
  // does not belong to it, so that users can add trials to a sweep.
  nlohmann::json decides;
};

// `root` is the experiment; its `sweep:`, if any, is removed. `words`: PATH=VALUES of the command line, which
// override the file. Mistakes go to `problems`.
Spec extract_spec(YamlNode& root, const std::vector<std::string>& words, Problems& problems);

}  // namespace mlk::sweeps
