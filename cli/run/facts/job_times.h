// Compares the times of a pod with the times of its Job. Pure.
#pragma once

namespace mlk {

struct PodFacts;
struct JobFacts;

// Whether the pod belongs to an earlier start of its Job, because the run was stopped and resumed since then.
// The end of such a pod does not count for this start.
bool is_of_earlier_start(const PodFacts& pod, const JobFacts& job);

// Whether the pod of a failed or failing Job was asked to end before the Job had decided to fail. Then the
// Job did not end the pod, and the end of the pod may be the reason of the failure. False if the pod had
// failed by itself before it was asked to end. Also false if the Job is suspended or is being deleted.
bool was_asked_before_failure(const PodFacts& pod, const JobFacts& job);

}  // namespace mlk
