// A sweep as its author means it: from the experiment file and the words of the command line to points that
// can be run.
#pragma once

#include <string>
#include <vector>

#include "cli/experiment/experiment.h"
#include "cli/experiment/yaml.h"
#include "cli/render/identity.h"
#include "cli/run/prepare.h"
#include "sweeps/spec.h"

namespace mlk::sweeps {

inline constexpr std::size_t most_points_of_sweep = 100'000;

struct Definition {
  std::string name;  // of the experiment
  YamlNode base;     // the experiment without `sweep:`, as it is written
  Spec spec;
  std::vector<Point>
      points;        // at least one, all different, in the order of the search; of tpe the first alone
  Experiment first;  // of the first point
  FileContents files;
  std::vector<std::string> left_behind;
  Identity identity;     // of the sweep
  std::string kin;       // kin_of_sweep()
  std::string files_of;  // whose copies of `files` its trials mount: the sweep's name
};

// `words`: PATH=VALUES of the command line. Throws Error: usage for mistakes in the file, in the words and
// for too many points. Of the points only the first is made an experiment here.
Definition define_sweep(const ExperimentFile& file, const PrepareOptions& options,
                        const std::vector<std::string>& words, const Templates& templates);

// How many trials the sweep is to have.
int planned_trials(const Definition& definition);

// All points of the search: `listed` are those of the file that `points:` names. `trains`: `repeat` varies
// the seed of `train:`, from `seed` on; of `run:` ${sweep.repeat}. Throws Error{usage}.
std::vector<Point> points_of(const Spec& spec, std::vector<Point> listed, bool trains, std::int64_t seed);

}  // namespace mlk::sweeps
