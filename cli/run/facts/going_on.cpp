#include "cli/run/facts/going_on.h"

#include <algorithm>

#include "cli/run/facts/at_fault.h"
#include "cli/run/facts/read_facts.h"

namespace mlk {
namespace {

// Whether the program may have run without a report of its start: the kubelet of a busy node reports the
// start of a container seconds late, or only together with its end.
bool may_have_started(const PodFacts& pod) {
  const bool is_being_started = pod.waiting_reason.empty() || pod.waiting_reason == "ContainerCreating" ||
                                pod.waiting_reason == "PodInitializing";
  return pod.scheduled && is_being_started && !pod.ended() && !pod.exit_code && !pod.program_runs() &&
         !pod.deleting && !pod.node_lost;
}

}  // namespace

bool has_live_pods(const RunObjects& objects, Time now) {
  const Facts facts = read_facts(objects, now);
  return std::ranges::any_of(facts.pods, [](const PodFacts& pod) { return !pod.ended() && !pod.node_lost; });
}

bool has_running_programs(const RunObjects& objects, Time now) {
  const Facts facts = read_facts(objects, now);
  return std::any_of(facts.pods.begin(), facts.pods.end(),
                     [](const PodFacts& pod) { return pod.program_runs() && !pod.node_lost; });
}

bool is_settling(const RunObjects& objects, Time now, std::chrono::nanoseconds since_end,
                 std::chrono::seconds patience) {
  constexpr std::chrono::seconds patience_beside{10}, patience_with_starts{30};
  if (has_running_programs(objects, now)) return since_end <= patience;
  const Facts facts = read_facts(objects, now);
  if (since_end <= std::min(patience, patience_with_starts) &&
      std::ranges::any_of(facts.pods, may_have_started))
    return true;
  bool waits = false, ends_by_itself = false;
  for (const PodFacts& pod : facts.pods) {
    if (!pod.exit_code || pod.ended() || pod.node_lost) continue;
    waits = true;
    ends_by_itself = ends_by_itself || waited_for(pod).empty();
  }
  // The program may have run for all of `patience`, so the pod gets more time to end.
  if (ends_by_itself) return since_end <= patience + patience_beside;
  return waits && since_end <= patience_beside;
}

bool lacks_ends_of_pods(const RunObjects& objects) {
  const Facts facts = read_facts(objects);
  return std::ranges::any_of(facts.jobs, [&](const JobFacts& job) {
    Indexes reported = job.completed, seen;
    reported.insert(job.failed_ranks);
    for (const PodFacts& pod : facts.pods) {
      if (pod.job == job.name && (pod.ended() || pod.exit_code)) seen.insert(pod.rank);
    }
    // A Job that fails as a whole may report no rank.
    return job.finished && (seen.empty() || reported.size_of_common(seen) < reported.size());
  });
}

std::vector<std::string> jobs_going_on(const RunObjects& objects) {
  const Facts facts = read_facts(objects);
  std::vector<std::string> names;
  for (const JobFacts& job : facts.jobs) {
    Indexes over = job.completed;
    over.insert(job.failed_ranks);
    for (const PodFacts& pod : facts.pods) {
      if (pod.job == job.name && pod.phase == "Succeeded") over.insert(pod.rank);
    }
    const bool removes_its_pods = job.finished || job.ending || job.suspended || job.deleting;
    if (!removes_its_pods && static_cast<int>(over.size()) < job.completions) names.push_back(job.name);
  }
  return names;
}

}  // namespace mlk
