#include "sweeps/trials/sweep_json.h"

#include <nlohmann/json.hpp>

#include "cli/util/time.h"

namespace mlk::sweeps {

using nlohmann::json;

namespace {

json time_or_null(const std::optional<Time>& time) { return time ? json(format_time(*time)) : json(); }

}  // namespace

json to_json(const SweepStatus& status) {
  const Counts& counts = status.counts;
  json out = {{"sweep", status.sweep},
              {"name", status.name},
              {"mode", status.mode},
              {"phase", to_string(status.phase)},
              {"why", status.why},
              {"driver", status.driver.what},
              {"created", time_or_null(status.created)},
              {"started", time_or_null(status.started)},
              {"ended", time_or_null(status.ended)},
              {"trials", counts.all()},
              {"counts",
               {{"waiting", counts.waiting},
                {"running", counts.running},
                {"succeeded", counts.succeeded},
                {"failed", counts.failed},
                {"stopped", counts.stopped}}},
              {"search", status.record.search},
              {"parallel", status.record.parallel},
              {"best", nullptr}};
  if (const Trial* best = best_of(status))
    out["best"] = {{"trial", best->number}, {"objective", *best->objective}, {"parameters", best->point}};
  return out;
}

}  // namespace mlk::sweeps
