// Compares the times of a pod with the times of its Job. Pure.
#pragma once

namespace mlk {

struct PodFacts;
struct JobFacts;

// Whether the pod belongs to an earlier start of its Job, because the run was stopped and resumed since then.
// The end of such a pod does not count for this start.
bool is_of_earlier_start(const PodFacts& pod, const JobFacts& job);

}  // namespace mlk
