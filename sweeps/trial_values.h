// How the values of a point reach its trial: as a whole experiment, or as what it changes of the sweep's
// first trial, for trials that are indexes of one Job. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/experiment/load.h"
#include "cli/experiment/yaml.h"
#include "sweeps/names.h"
#include "sweeps/space.h"

namespace mlk::sweeps {

// Makes the experiments of a sweep's points. Keeps references to what it is given.
class Experiments {
 public:
  // `base`: the experiment's tree without `sweep:`, from take_spec().
  Experiments(const YamlNode& base, const std::vector<std::string>& job_types,
              const Surroundings& surroundings)
      : base_(base), names_(base), job_types_(job_types), surroundings_(surroundings) {}

  // Throws Error{usage} that begins with the point's values.
  Experiment of(const Point& point) const;

 private:
  const YamlNode& base_;
  const Names names_;
  const std::vector<std::string>& job_types_;
  const Surroundings& surroundings_;
};

// The experiment file of one point: `base` as a sweep's record has it. Throws Error{usage} when a value has
// no place in it.
nlohmann::json experiment_at(const nlohmann::json& base, const Point& point);

// "train.optimizer.lr=0.1 train.data.batch=16"; "no parameters" without any.
std::string describe(const Point& point);

struct Delta {
  nlohmann::json config;    // of `train:`: a merge patch (RFC 7386) of the runtime's configuration
  std::string environment;  // of `run:`: one line of sh that sets variables and the program's arguments
  std::string obstacle;     // why one Job cannot do this; empty when it can
};

// What the trials of one Job have in common.
class CommonPart {
 public:
  // `base` as for Experiments; `first`: any of the sweep's experiments; `config`: the runtime's configuration
  // that the deltas of `train:` are of.
  CommonPart(const YamlNode& base, const Space& space, const Experiment& first, nlohmann::json config);

  // Depends on the trial and the configuration alone, so that a Job may be made of any of its trials.
  Delta delta_of(const Experiment& trial, int number) const;

 private:
  void add_variables(const nlohmann::json& environment, Delta& out) const;

  const nlohmann::json common_, config_;
  std::set<std::string> variables_;  // of `env` that vary
  bool command_varies_ = false;
};

// The program of a `run:` trial in a Job of many: sh that reads the line of MLK_POINTS which belongs to
// MLK_TRIAL_INDEX, and then becomes `command`. As a pod has it: $$ stands for $.
std::vector<std::string> trial_command(const std::vector<std::string>& command);

}  // namespace mlk::sweeps
