// Passes the values of a point to its trial: as a complete experiment, or, if the trials are indexes of one
// Job, as changes to the configuration of the Job. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/experiment/load.h"
#include "cli/yaml/yaml.h"
#include "sweeps/space/names.h"
#include "sweeps/space/space.h"

namespace mlk::sweeps {

// Makes the experiments of a sweep's points. Keeps references to its arguments.
class Experiments {
 public:
  // `base`: the experiment's tree without `sweep:`, from extract_spec().
  Experiments(const YamlNode& base, const Space& space, const TemplateNames& template_names,
              const FileContext& file_context)
      : base_(base),
        space_(space),
        names_(base),
        template_names_(template_names),
        file_context_(file_context) {}

  // The experiment of a point. Throws Error{usage} if the point cannot be run; the first line of the message
  // shows the values of the point.
  Experiment of(const Point& point) const;

 private:
  const YamlNode& base_;
  const Space& space_;
  const Names names_;
  const TemplateNames& template_names_;
  const FileContext& file_context_;
};

// The experiment file of one point: `base` and `space` as in a sweep's record. Throws Error{usage} if a
// value cannot be put at the path of its parameter.
nlohmann::json experiment_at(const nlohmann::json& base, const Space& space, const Point& point);

// "train.optimizer.lr=0.1 train.data.batch=16"; "no parameters" if there are none.
std::string describe(const Point& point);

struct Delta {
  nlohmann::json config;    // with `train`: a merge patch (RFC 7386) of the runtime's configuration
  std::string environment;  // with `run`: one line of sh that sets variables and arguments of the program
  std::string obstacle;     // why the trial cannot be an index of a Job; empty if it can
};

// The common part of the trials of one Job.
class CommonPart {
 public:
  // `base`: as for Experiments; `first`: the experiment of any point of the sweep; `config`: the runtime's
  // configuration, which the deltas of `train:` change.
  CommonPart(const YamlNode& base, const Space& space, const Experiment& first, nlohmann::json config);

  // The delta depends only on the trial and the configuration, so the objects of a Job may come from any of
  // its trials.
  Delta delta_of(const Experiment& trial, int number) const;

 private:
  void add_variables(const nlohmann::json& environment, Delta& out) const;
  void find_references(const nlohmann::json& effective, Delta& out) const;

  const nlohmann::json common_, config_;
  std::set<std::string> variables_;  // the names of the variables in `env` that vary
  bool command_varies_ = false;
};

// The program of a `run:` trial in a Job of many trials: sh reads from the file MLK_POINTS the line with the
// index MLK_TRIAL_INDEX, gives the trial its own folders (runtime/CONTRACT.md), and then executes `before`
// and `command`, or the words that the line has in place of `command`. The variables of this sh script begin
// with mlk_, so they replace no variable of the program. The returned words are written as in a pod, where $$
// means $.
std::vector<std::string> trial_command(const std::vector<std::string>& command,
                                       const std::vector<std::string>& before = {});

}  // namespace mlk::sweeps
