#include "sweeps/trials/plain_runs.h"

#include <algorithm>
#include <set>

#include "cli/run/state/differences.h"
#include "cli/util/json_path.h"
#include "sweeps/space/names.h"
#include "sweeps/trials/trial_runs.h"

namespace mlk::sweeps {

using nlohmann::json;

Point parameters_of(const RunStatus& run) {
  json experiment = run.experiment;
  if (!experiment.is_object()) return {};
  for (const char* key : {"tags", "note", "name"}) experiment.erase(key);
  return values_by_path(experiment);
}

Objective usual_objective(const std::vector<RunStatus>& runs) {
  const bool accurate = std::any_of(runs.begin(), runs.end(), [](const RunStatus& run) {
    return at_path(run.result, {"metrics", "accuracy"}).is_number();
  });
  Objective out;
  out.goal = accurate ? Objective::Goal::maximize : Objective::Goal::minimize;
  out.metric = accurate ? "accuracy" : "loss";
  return out;
}

std::vector<Trial> trials_of(std::vector<RunStatus> runs, const Objective& objective) {
  std::sort(runs.begin(), runs.end(), [](const RunStatus& a, const RunStatus& b) {
    return std::pair(a.created, a.run) < std::pair(b.created, b.run);
  });
  std::vector<Point> values;
  std::set<std::string> paths, differing;
  for (const RunStatus& run : runs) {
    values.push_back(parameters_of(run));
    for (const auto& [path, value] : values.back()) paths.insert(path);
  }
  for (const std::string& path : paths) {
    for (const Point& point : values) {
      const Point& oldest = values.front();
      const auto first = oldest.find(path), here = point.find(path);
      const bool same = (first == oldest.end()) == (here == point.end()) &&
                        (here == point.end() || first->second == here->second);
      if (!same) differing.insert(path);
    }
  }
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Trial trial;
    trial.number = static_cast<int>(i);
    trial.point["run"] = runs[i].run;
    for (const std::string& path : differing) {
      if (const auto value = values[i].find(path); value != values[i].end())
        // The parameter `run` is the name of the run. So the program, which the experiment has in its key
        // `run`, becomes the parameter `program`.
        trial.point[path == "run" ? "program" : with_short_role(path)] = value->second;
    }
    trial.hash = hash_of(trial.point);
    read_run(runs[i], objective, trial);
    trials.push_back(std::move(trial));
  }
  return trials;
}

}  // namespace mlk::sweeps
