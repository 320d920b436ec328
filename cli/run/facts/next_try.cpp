#include "cli/run/facts/next_try.h"

#include <algorithm>

#include "cli/run/facts/facts.h"

namespace mlk {

using std::chrono::seconds;

bool was_last_try(const PodFacts& pod, const JobFacts& job) {
  if (pod.action == PolicyAction::fail_job || pod.action == PolicyAction::fail_index) return true;
  if (pod.action == PolicyAction::ignore || !job.counts_by_rank) return false;
  return pod.counted_before + 1 >= job.attempts;
}

std::optional<Time> next_try(const PodFacts& pod, const JobFacts& job) {
  const bool job_over = job.end != JobFacts::End::none || job.ending || job.suspended || job.deleting;
  if (job.run_over || job_over || job.failed_ranks.contains(pod.rank) || job.completed.contains(pod.rank))
    return std::nullopt;
  const std::optional<Time>& ended_at = pod.pod_finished ? pod.pod_finished : pod.finished;
  if (!pod.ended() || !ended_at || was_last_try(pod, job)) return std::nullopt;
  // The controller's backoff for each rank: 10 s, doubled with each earlier failure, at most 10 minutes.
  const int doublings = std::min(pod.failures_before, 6);
  return *ended_at + std::min(seconds(10 * (1 << doublings)), seconds(600));
}

}  // namespace mlk
