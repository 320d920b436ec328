// Trials that the cluster runs without a driver: an Indexed Job, and a ConfigMap with the points of the Job's
// indexes. Pure.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/render/limits.h"
#include "cli/render/render.h"
#include "sweeps/space/trial_values.h"

namespace mlk::sweeps {

inline constexpr std::size_t most_points_bytes = most_config_map_bytes;  // of the points of one Job
inline constexpr int most_indexes = 20'000;                              // of one Job

// A trial in the Job's ConfigMap: one line in points.jsonl, and for `run:` also one line in points.env.
struct TrialLine {
  int number = 0;
  std::string hash;
  Point point;
  Delta delta;
  int attempt = 1;  // 1 for the first line with this number, 2 for the second ...; batches_of() sets it

  std::size_t bytes() const;  // the bytes of both lines
};
std::string points_line(const TrialLine& trial);

// Reads all lines of a text that points_line() has written. Skips invalid lines.
std::vector<TrialLine> parse_points(std::string_view text);

struct TrialsJob {
  int job = 0;                    // the sweep's Jobs are counted from 0
  std::vector<TrialLine> trials;  // ascending by number
  int parallel = 1;
  int may_fail = 0;  // if more trials fail, the Job ends
};

// Divides the trials, in their order, into as few Jobs as possible, such that each Job has at most
// `most_indexes` trials, and their points fit into a ConfigMap of `most_bytes`.
std::vector<std::vector<TrialLine>> cut_into_jobs(std::vector<TrialLine> trials,
                                                  std::size_t most_bytes = most_points_bytes);

struct TrialsObjects {
  nlohmann::json points, job;
};

// `experiment`: the experiment of the Job's first trial. `rendered`: the objects that this trial would have
// as a run (render.h), with the identity of the sweep.
TrialsObjects render_trials(const TrialsJob& job, const Experiment& experiment, const FileContents& files,
                            const Rendered& rendered, const Templates& templates);

}  // namespace mlk::sweeps
