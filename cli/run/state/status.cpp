#include "cli/run/state/status.h"

#include <algorithm>
#include <utility>

#include "cli/util/text.h"

namespace mlk {
namespace {

using json = nlohmann::json;

json time_json(const std::optional<Time>& time) { return time ? json(format_time(*time)) : json(nullptr); }

json failure_json(const std::optional<Failure>& failure) {
  if (!failure) return nullptr;
  return {{"role", failure->role},           {"rank", failure->rank},
          {"exit_code", failure->exit_code}, {"signal", failure->signal},
          {"container", failure->container}, {"reason", failure->reason},
          {"message", failure->message},     {"disruption", failure->disruption},
          {"attempt", failure->attempt},     {"attempts", failure->attempts},
          {"at", time_json(failure->at)},    {"next", time_json(failure->next)}};
}

json rank_json(const RankStatus& rank, std::string_view reason) {
  return {
      {"role", rank.role},         {"rank", rank.rank}, {"state", rank.state},           {"node", rank.node},
      {"restarts", rank.restarts}, {"reason", reason},  {"since", time_json(rank.since)}};
}

json common_json(const RunStatus& status) {
  return {{"run", status.run},
          {"name", status.name},
          {"mode", status.mode},
          {"phase", to_string(status.phase)},
          {"why", status.why},
          {"created", time_json(status.created)},
          {"started", time_json(status.started)},
          {"ended", time_json(status.ended)},
          {"restarts", status.restarts},
          {"steps", status.steps},
          {"result", status.result},
          {"result_at", time_json(status.result_at)},
          {"first_failure", failure_json(status.first_failure)},
          {"last_failure", failure_json(status.last_failure)},
          {"last_checkpoint", status.last_checkpoint}};
}

}  // namespace

bool is_over(const RunStatus& status) { return is_final(status.phase) || status.absence == Absence::gone; }

ExitCode exit_code(const RunStatus& status) {
  if (status.phase == Phase::succeeded) return ExitCode::ok;
  if (status.phase == Phase::stopped) return ExitCode::stopped;
  if (status.phase == Phase::failed)
    return status.first_failure && status.first_failure->disruption ? ExitCode::disrupted
                                                                    : ExitCode::run_failed;
  return status.cannot_start ? ExitCode::cannot_start : ExitCode::failure;
}

json to_record(const RunStatus& status) {
  // An object of the cluster may have 1 MiB, so a record is limited.
  constexpr std::size_t most_ranks = 256, longest_reason = 500;
  json record = common_json(status);
  record["schema"] = 1;
  const auto waits = [](const RankStatus& rank) { return !rank.meanwhile.empty(); };
  if (status.phase == Phase::succeeded && std::any_of(status.ranks.begin(), status.ranks.end(), waits))
    record["why"] = "";  // the reason was valid only at that moment
  record["ranks"] = json::array();
  for (const RankStatus& rank : status.ranks) {
    if (record["ranks"].size() == most_ranks) break;
    record["ranks"].push_back(rank_json(rank, cut(rank.reason, longest_reason)));
  }
  return record;
}

json to_json(const RunStatus& status) {
  json out = common_json(status);
  out["cannot_start"] = status.cannot_start;
  out["final"] = is_over(status);
  out["checkpoint"] = to_json(status.checkpoint);
  out["outputs"] = status.outputs ? to_json(*status.outputs) : json();
  out["experiment"] = status.experiment;
  out["owner"] = to_json(status.submitter);
  out["tags"] = status.tags;
  out["note"] = status.note;
  out["commit"] = status.commit;
  out["ranks"] = json::array();
  for (const RankStatus& rank : status.ranks) {
    json one = rank_json(rank, rank.meanwhile.empty() ? rank.reason : rank.meanwhile);
    one["pod"] = rank.pod;
    out["ranks"].push_back(std::move(one));
  }
  return out;
}

}  // namespace mlk
