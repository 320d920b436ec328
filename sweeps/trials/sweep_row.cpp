#include "sweeps/trials/sweep_row.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/facts/absence.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/owner.h"
#include "cli/run/facts/read_facts.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr char failed_reason[] = "FailedIndexes";  // all indexes of the Job have ended, and some have failed

// Whether the indexes of the Job are trials. Otherwise the Job belongs to a trial that is a run.
bool is_of_trials(const JobFacts& job) { return job.role == "trial"; }

// The reason in the row. Does not read the trials, unlike `mlk status`. `ending`: why a Job gave up.
std::string why_of_row(const RunStatus& row, std::size_t failed, bool active, bool draining,
                       const std::string& ending) {
  if (row.phase == Phase::incomplete) return starter_was_cut_off;
  std::vector<std::string> parts;
  if (failed > 0) parts.push_back(fmt::format("{} of {} trials failed", failed, row.steps));
  if (row.phase == Phase::failed) parts.push_back(ending.empty() ? "mlk status says why" : printable(ending));
  if (row.phase == Phase::running && !active) parts.push_back("no trial runs: mlk status says why");
  if (row.phase == Phase::running && draining) parts.push_back(drains);
  return join(parts, "; ");
}

}  // namespace

bool is_stopped(const json& owner, const Facts& facts) {
  const bool resumed = std::any_of(facts.jobs.begin(), facts.jobs.end(),
                                   [](const JobFacts& job) { return is_of_trials(job) && job.resumed; });
  return !resumed && !kube::annotation_of(owner, annotations::stopped).empty();
}

RunStatus row_of_sweep(const RunObjects& objects) {
  const Facts facts = read_facts(objects.jobs, objects.pods, objects.events);
  RunStatus row;
  row.run = kube::name_of(objects.owner);
  row.name = kube::label_of(objects.owner, labels::name);
  row.mode = mode_of_sweeps;
  row.created = time_of(objects.owner, {"metadata", "creationTimestamp"});
  row.submitter = submitter_of(objects.owner);
  row.tags = tags_of(objects.owner);
  std::size_t succeeded = 0, failed = 0;
  bool ended = !facts.jobs.empty(), hopeless = false, active = false;
  std::string ending;  // why a Job gave up
  for (const JobFacts& job : facts.jobs) {
    const bool of_run = !is_of_trials(job);  // a run may have several Jobs; only one decides its end
    if (of_run && !job.decides && job.role != "worker") continue;
    succeeded +=
        of_run ? static_cast<std::size_t>(job.end == JobFacts::End::succeeded) : job.completed.size();
    failed += of_run ? static_cast<std::size_t>(job.end == JobFacts::End::failed) : job.failed_ranks.size();
    ended = ended && !of_run && (job.finished || job.ending);
    // If a Job fails for another reason, some of its trials will never start.
    const bool gave_up = !of_run && job.end == JobFacts::End::failed && job.end_reason != failed_reason;
    hopeless = hopeless || gave_up;
    if (gave_up && ending.empty()) ending = job.end_message.empty() ? job.end_reason : job.end_message;
    active = active || job.active > 0;
    if (job.started && (!row.started || *job.started < *row.started)) row.started = job.started;
  }
  const json roles = json_or_null(kube::annotation_of(objects.owner, annotations::roles));
  row.steps = count_of(roles, {"trial"}, 0);
  // A driver may start trials outside of these Jobs later, so the sweep has ended only if its trials have
  // ended or one of its Jobs gave up.
  ended = ended && (hopeless || static_cast<long>(succeeded + failed) >= row.steps);
  const bool draining = !kube::annotation_of(objects.owner, annotations::draining).empty();
  const bool drained = draining && !active;
  const bool stopped = drained || is_stopped(objects.owner, facts);
  const std::optional<Phase> written = parse_phase(kube::annotation_of(objects.owner, annotations::phase));
  row.phase = written   ? *written
              : ended   ? (hopeless || succeeded == 0 ? Phase::failed : Phase::succeeded)
              : stopped ? Phase::stopped
              : active || succeeded + failed > 0 ? Phase::running
              : facts.jobs.empty()               ? Phase::incomplete
                                                 : Phase::scheduling;
  row.result = {{"step", succeeded + failed}};
  std::set<std::string> jobs;
  for (const JobFacts& job : facts.jobs) jobs.insert(job.name);
  const std::vector<std::string> made = jobs_made(objects.owner);
  const bool lacks_some =
      std::any_of(made.begin(), made.end(), [&](const std::string& name) { return jobs.count(name) == 0; });
  if (!written && !stopped && !active && lacks_some && are_gone(objects.owner, jobs)) {
    row.phase = Phase::incomplete;
    row.absence = Absence::gone;
    row.why = std::string(job_is_gone) + "; mlk status says what is known of its trials";
    return row;
  }
  row.why = why_of_row(row, failed, active, draining, ending);
  return row;
}

}  // namespace mlk::sweeps
