// Selects trials and runs by an expression over all their known values. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/run/state/status.h"
#include "sweeps/space/space.h"
#include "sweeps/space/trial.h"

namespace mlk::sweeps {

// `expression` is the value of --where; an empty one selects all trials. The expression may name metrics,
// parameters (by the path, or by an end of the path such as lr), and these fields of a trial: trial, state,
// objective, step, tries, failure, duration (seconds, or text such as 10m). If a metric and a parameter have
// the same name, the expression must say metrics.NAME for the metric, and parameters.NAME or the path for the
// parameter. Throws Error{usage}, with a caret, for a mistake, for a name that no trial has, and for a name
// that both a metric and a parameter have.
std::vector<Trial> select(const std::vector<Trial>& trials, const Space& space,
                          const std::string& expression);

// Like select(), but for runs. The expression may name values of the experiment (RunFilter::configured),
// metrics, and these fields of a run: run, name, mode, phase (also called state), step, restarts, why, owner,
// tags, age and duration (seconds, or text such as 2h). `tags` is the list of tags; `tags.team` is "vision"
// for the tag team=vision, and true for the tag team without a value. If a value of the experiment or a
// metric has the name of a field, the name means the field. `owner` is the word for the submitter
// (short_names()), and in a comparison with it, the word me means `me`.
std::vector<RunStatus> select_runs(const std::vector<RunStatus>& runs, Time now,
                                   const std::string& expression, const Me& me = {});

// The values of these names for each run: one list for each run, null for a value that the run lacks. The
// names are those of select_runs(), and an end of a path is enough. Throws Error{usage} for a name that no
// run has, if there are runs.
std::vector<std::vector<nlohmann::json>> values_of_runs(const std::vector<RunStatus>& runs,
                                                        const std::vector<std::string>& names, Time now,
                                                        const Me& me = {});

}  // namespace mlk::sweeps
