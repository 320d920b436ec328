// Decides which data the report of a sweep shows: selects the trials that the charts draw, counts the omitted
// data, and compares the durations of trials. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/util/time.h"
#include "sweeps/space/objective.h"
#include "sweeps/space/space.h"
#include "sweeps/space/trial.h"

namespace mlk::sweeps {

struct ReportData {
  std::string title;        // the sweep's name
  std::string name_space;   // of Kubernetes
  std::string description;  // one line: mode, search ...
  Objective objective;
  Space space;
  std::vector<Trial> trials;
  Time made;            // when the trials were read
  std::string version;  // of mlk
};

// The limits of one report: counts of items, and lengths of texts in bytes.
struct ReportBounds {
  std::size_t rows = 20'000;  // trials in the table
  std::size_t drawn = 500;    // trials in parallel coordinates and scatter plots
  std::size_t curves = 200;   // learning curves
  std::size_t points = 200;   // of a curve
  std::size_t parameters = 100;
  std::size_t metrics = 12;  // columns of the table beside the objective
  std::size_t text = 200;    // of a name or a value
  std::size_t failure = 500;
  std::size_t bytes = 16u << 20;  // of all data
};

// The index of the best trial among the trials that have a value and did not fail.
std::optional<std::size_t> best_of(const std::vector<Trial>& trials, const Objective& objective);

// The indices of at most `most` of the candidates, ascending: one fifth of `most` are the best candidates,
// and the rest is an even sample of the others. If there are at most `most` candidates, all of them.
std::vector<std::size_t> representative(const std::vector<Trial>& trials, const Objective& objective,
                                        const std::vector<std::size_t>& candidates, std::size_t most);

// The durations of the successful trials that have the same counts of workers, servers and nodes.
struct CountTimes {
  Point counts;
  std::size_t trials = 0;
  double shortest = 0, median = 0, longest = 0;  // seconds
  double speedup = 1;                            // the first entry's median divided by this entry's median
};

// The paths of the varying parameters that are numbers of workers, servers or nodes: "workers.count",
// "servers.count", or any other path whose last word is "count", "nodes" or "workers".
std::vector<std::string> count_paths(const Space& space);

// One entry for each combination of counts, ascending by the counts. Empty if no count varies.
std::vector<CountTimes> times_by_count(const Space& space, const std::vector<Trial>& trials);

// The content of the page as JSON. sweeps/results/report/data.js explains the short keys.
nlohmann::json report_data(const ReportData& data, const ReportBounds& bounds = {});

// The text of a <script type="application/json"> element; nothing in it can end the element.
std::string script_json(const nlohmann::json& value);

}  // namespace mlk::sweeps
