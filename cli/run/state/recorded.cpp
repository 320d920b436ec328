#include "cli/run/state/recorded.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/run/state/report.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {

using json = nlohmann::json;

void fill_from(const RunStatus& recorded, RunStatus& status) {
  Report report = newer_of({recorded.result, recorded.result_at}, {status.result, status.result_at});
  status.result = std::move(report.result);
  status.result_at = report.at;
  if (recorded.first_failure && (!status.first_failure || status.phase != Phase::failed)) {
    status.first_failure = recorded.first_failure;
  }
  if (!status.last_failure) status.last_failure = recorded.last_failure;
  if (recorded.started) status.started = recorded.started;
  status.restarts = std::max(status.restarts, recorded.restarts);
}

void use_newer_ranks(std::vector<RankStatus>& recorded, const std::vector<RankStatus>& seen) {
  for (RankStatus& written : recorded) {
    if (written.state == "Succeeded" || written.state == "Failed") continue;
    const auto now = std::ranges::find_if(
        seen, [&](const RankStatus& rank) { return rank.role == written.role && rank.rank == written.rank; });
    const std::string node = written.node;
    if (now == seen.end() || now->restarts < written.restarts) continue;  // the pods of the rank are gone
    written = *now;
    if (written.node.empty()) written.node = node;
  }
}

std::string checkpoint_in(const json& result) {
  const json& checkpoint = at_path(result, {"checkpoint"});
  if (checkpoint.is_string()) return printable(checkpoint.get<std::string>());
  return checkpoint.is_number_integer() ? "step " + checkpoint.dump() : "";
}

}  // namespace mlk
