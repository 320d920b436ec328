#include "cli/run/facts/job_times.h"

#include "cli/run/facts/at_fault.h"
#include "cli/run/facts/facts.h"

namespace mlk {

// When a Job is resumed, its controller makes the new pods first, and only then sets the time of the start.
// So a pod that was created before this time may still belong to the new start. Such a pod counts as old only
// if it ended, or was asked to end, before the start. If it was asked to end in the second of the start, a
// stop had deleted it, so it counts as old too.
bool is_of_earlier_start(const PodFacts& pod, const JobFacts& job) {
  if (!job.started || pod.created >= *job.started) return false;
  if (pod.asked_to_end && *pod.asked_to_end <= *job.started) return true;
  return pod.finished ? *pod.finished < *job.started : pod.ended();
}

bool was_asked_before_failure(const PodFacts& pod, const JobFacts& job) {
  if (job.suspended || job.deleting || !pod.asked_to_end || failed_by_itself(pod)) return false;
  if (job.failure_decided_at) return *pod.asked_to_end < *job.failure_decided_at;
  return job.failing;  // mlk expects this failure, but the Job has not decided it and so has ended no pod
}

}  // namespace mlk
