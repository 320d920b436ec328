#include "cli/run/state/report.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/kube/objects.h"
#include "cli/run/facts/at_fault.h"
#include "cli/run/facts/facts.h"
#include "cli/run/facts/last_words.h"
#include "cli/run/facts/metrics_reader.h"
#include "cli/run/facts/program_error.h"
#include "cli/run/facts/read_facts.h"
#include "cli/run/state/record.h"
#include "cli/run/state/status.h"
#include "cli/util/json_path.h"
#include "cli/util/program_text.h"

namespace mlk {
namespace {

using json = nlohmann::json;
using std::chrono::seconds;

// Lines of several ranks within this time count as simultaneous.
constexpr seconds same_moment{30};
constexpr seconds precision{1};  // pods report times without fractions of a second

std::int64_t step_of(const json& result) { return count_of(result, {"step"}, -1); }
bool is_done(const json& result) { return at_path(result, {"done"}) == true; }
bool is_live(const PodFacts& pod) { return pod.program_runs() && !pod.node_lost; }

// The report of an ended program from its termination message: the result, or else the last metrics line.
json result_of(const PodFacts& pod) {
  const json of_runtime = parse_result(pod.end_message);
  if (!of_runtime.is_null())
    return step_of(of_runtime) < 0 ? json() : of_runtime;  // only one rank writes steps
  if (const std::optional<Metrics> metrics = last_metrics(pod.end_message)) return to_result(*metrics);
  return written_result(pod.end_message);
}

// The newest report of an ended program. Live pods have no such report yet.
Report newest_result(const Facts& facts) {
  Report best;
  for (const PodFacts& pod : facts.pods) {  // oldest first
    Report told{result_of(pod), pod.finished};
    if (told.result.is_null()) continue;
    const bool after = best.at && pod.started && *pod.started >= *best.at;
    const bool further = step_of(told.result) >= step_of(best.result);
    const bool done = is_done(told.result), best_done = is_done(best.result);
    if (best.result.is_null() || (done && !best_done) || (done == best_done && (after || further)))
      best = std::move(told);
  }
  return best;
}

Report newest_line(const Facts& facts, const std::map<std::string, MetricsLine>& lines) {
  Time newest = Time::min();
  for (const auto& [uid, line] : lines) newest = std::max(newest, line.time);
  Report best;
  std::optional<std::tuple<bool, int, Time>> best_key;
  for (const PodFacts& pod : facts.pods) {
    const auto found = lines.find(pod.uid);
    if (found == lines.end() || newest - found->second.time > same_moment) continue;
    const Time time = found->second.time;
    const std::tuple key(is_live(pod), -pod.rank, time);
    if (best_key && key <= *best_key) continue;
    best_key = key;
    best = {to_result(found->second.metrics), time};
  }
  return best;
}

LogToRead log_of(const RunObjects& objects, const PodFacts& pod) {
  LogToRead log{pod.name, pod.uid, ""};
  for (const json& object : objects.pods) {
    if (kube::uid_of(object) == pod.uid) log.container = main_container_of(object);
  }
  return log;
}

}  // namespace

Report newer_of(Report earlier, Report later) {
  if (earlier.result.is_null()) return later;
  if (later.result.is_null()) return earlier;
  const bool after = later.at && (!earlier.at || *later.at > *earlier.at + precision);
  const bool further = step_of(later.result) > step_of(earlier.result);
  const bool ended_after_all = is_done(earlier.result) && !is_done(later.result);
  if (ended_after_all || (!after && !further)) return earlier;
  // A metrics line does not mention checkpoints. The earlier checkpoint still exists, so the later report
  // gets it.
  if (const json& checkpoint = at_path(earlier.result, {"checkpoint"});
      !checkpoint.is_null() && !later.result.contains("checkpoint")) {
    later.result["checkpoint"] = checkpoint;
  }
  return later;
}

Report newest_report(const Facts& facts, const RunObjects& objects) {
  Report written = newest_result(facts), printed = newest_line(facts, objects.lines);
  if (written.result.is_null() || printed.result.is_null() || step_of(written.result) >= 0)
    return newer_of(std::move(written), std::move(printed));
  // The program has written numbers without a step at its end. So the step is that of its last line.
  printed.result["metrics"].update(written.result["metrics"]);
  return {std::move(printed.result), written.at};
}

std::vector<LogToRead> logs_to_read(const RunObjects& objects) {
  const std::optional<RunStatus> recorded = recorded_status(objects.owner);
  if (recorded && is_final(recorded->phase) && !recorded->result.is_null()) return {};
  const Facts facts = read_facts(objects);
  const JobFacts* decider = facts.decider();
  std::vector<const PodFacts*> live, ended;
  for (const PodFacts& pod : facts.pods) {
    if (!facts.jobs.empty() && (!decider || pod.job != decider->name)) continue;
    if (is_live(pod)) live.push_back(&pod);
    if ((pod.ended() || (pod.exit_code && !pod.node_lost)) && pod.started) ended.push_back(&pod);
  }
  if (live.empty() && !newest_result(facts).result.is_null()) return {};
  // The lowest rank comes first, and within a rank the newest pod.
  const auto comes_first = [](const PodFacts* a, const PodFacts* b) {
    return std::tuple(a->rank, b->created) < std::tuple(b->rank, a->created);
  };
  std::sort(live.begin(), live.end(), comes_first);
  std::sort(ended.begin(), ended.end(), comes_first);
  // Ranks that have just restarted have nothing to report yet. So up to half of the list is reserved for the
  // logs of ended pods.
  constexpr std::size_t most_of_each = most_logs_of_run / 2;
  const std::size_t most_live =
      std::max(most_of_each, most_logs_of_run - std::min(ended.size(), most_of_each));
  if (live.size() > most_live) live.resize(most_live);
  live.insert(live.end(), ended.begin(), ended.end());
  if (live.size() > most_logs_of_run) live.resize(most_logs_of_run);
  std::vector<LogToRead> logs;
  for (const PodFacts* pod : live) logs.push_back(log_of(objects, *pod));
  return logs;
}

std::vector<LogToRead> endings_to_read(const RunObjects& objects) {
  const std::optional<RunStatus> recorded = recorded_status(objects.owner);
  if (recorded && is_final(recorded->phase)) return {};
  std::vector<PodFacts> failed;
  for (const PodFacts& pod : read_facts(objects).pods) {
    const bool by_itself = pod.phase == "Failed" && pod.exit_code.value_or(0) != 0 &&
                           pod.disruption.empty() && !pod.fell_with_job &&
                           (!pod.deleting || failed_by_itself(pod));
    if (by_itself && parse_result(pod.end_message).is_null() &&
        !program_error(program_text(pod.end_message)).is_found)
      failed.push_back(pod);
  }
  std::stable_sort(failed.begin(), failed.end(), [](const PodFacts& a, const PodFacts& b) {
    return a.finished.value_or(Time::max()) < b.finished.value_or(Time::max());
  });
  std::vector<LogToRead> logs;
  for (const PodFacts& pod : failed) {
    if (logs.size() < most_endings_of_run) logs.push_back(log_of(objects, pod));
  }
  return logs;
}

}  // namespace mlk
