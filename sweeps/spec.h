// What a sweep is: its space, how it is searched, what is best. Read from the file's `sweep:` and the words
// of the command line. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/experiment/problems.h"
#include "cli/experiment/yaml.h"
#include "sweeps/objective.h"
#include "sweeps/space.h"
#include "sweeps/stopping.h"

namespace mlk::sweeps {

struct Search {
  enum class Kind { grid, random, list, tpe };
  Kind kind = Kind::grid;
  int trials = 0;  // of random and tpe: how many in all
  std::uint64_t seed = 1;
  std::vector<Point> start{};  // of tpe: tried first, in this order
};
std::string_view to_string(Search::Kind kind);

// Which trials are ended before they are whole.
struct EarlyStop {
  enum class Rule { none, asha, median };
  Rule rule = Rule::none;
  AshaOptions asha;
  MedianOptions median;
  bool resumes = false;  // of asha: trials keep checkpoints, so that they can be paused and go on
};

// What becomes of trials that do badly, and why so, for people; empty without such a choice.
std::string describe(const EarlyStop& stop);

struct Spec {
  Space space;
  Search search;
  int repeat = 1;
  int parallel = 4;
  std::optional<int> max_failures;
  std::optional<Objective> objective;
  EarlyStop stop;
  std::string points_file;  // `points:`, as written; empty: none
  Place points_place;
  nlohmann::json decides;  // what of it makes the sweep that sweep: search, objective, stop
};

// `root` is the experiment with its `sweep:`, if it has one, which is taken out. `words`: PATH=VALUES of the
// command line, over those of the file. Mistakes go to `problems`.
Spec take_spec(YamlNode& root, const std::vector<std::string>& words, Problems& problems);

}  // namespace mlk::sweeps
