// The definition of a sweep: turns the experiment file and the words of the command line into runnable
// points.
#pragma once

#include <string>
#include <vector>

#include "cli/experiment/experiment.h"
#include "cli/render/identity.h"
#include "cli/run/inputs/prepare.h"
#include "cli/yaml/yaml.h"
#include "sweeps/search/spec.h"

namespace mlk::sweeps {

inline constexpr std::size_t most_points_of_sweep = 100'000;

struct Definition {
  std::string name;  // of the experiment
  YamlNode base;     // the experiment without `sweep:`, as written
  Spec spec;
  std::vector<Point>
      points;        // at least one, all different, in the order of the search; for tpe only the first point
  Experiment first;  // the experiment of the first point
  FileContents files;
  std::vector<std::string> warnings;  // as in Prepared
  Identity identity;                  // of the sweep
  std::string kin;                    // the result of kin_of_sweep()
  std::string files_of;               // the trials mount the ConfigMaps "<files_of>-data-..."
};

// `words`: PATH=VALUES of the command line. Throws Error{usage} for mistakes in the file and in the words,
// and for too many points. Builds only the experiment of the first point.
Definition define_sweep(const ExperimentFile& file, const PrepareOptions& options,
                        const std::vector<std::string>& words, const Templates& templates);

// The number of points; for search tpe, the number of trials that the sweep asks for.
int planned_trials(const Definition& definition);

// A message that the space has fewer points than the requested number of trials. Empty if the space has
// enough points.
std::string why_fewer_points(const Definition& definition);

// All points of the search, or the first point of search tpe. `listed`: the points of the file that `points:`
// names. With `trains`, the option `repeat` varies the seed of `train:`, starting at `seed`. Otherwise it
// varies ${sweep.repeat}, starting at 1. Throws Error{usage}.
std::vector<Point> points_of(const Spec& spec, std::vector<Point> listed, bool trains, std::int64_t seed);

}  // namespace mlk::sweeps
