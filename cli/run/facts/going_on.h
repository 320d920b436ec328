// Finds the pods of a run that have not ended, and the Jobs that would continue after the end of the run.
// Pure.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/run/facts/run_objects.h"
#include "cli/util/time.h"

namespace mlk {

// Whether there is a pod that has not ended and can still report. A pod on a lost node cannot report.
bool has_live_pods(const RunObjects& objects, Time now);
// Whether the program of at least one pod runs, on a node that is not lost.
bool has_running_programs(const RunObjects& objects, Time now);
// Whether an ended run may still report results when mlk has known its end for `since_end`. A running program
// may report for `patience`. A pod that was being started on its node may have run without a report, so it
// may report for 30 s, but not longer than `patience`. A pod whose program has ended may report for 10 s
// more, until the kubelet reports the end of the pod. A pod that waits for another container may report for
// 10 s. A caller that suspends the Job earlier removes the pod and its log.
bool is_settling(const RunObjects& objects, Time now, std::chrono::nanoseconds since_end,
                 std::chrono::seconds patience);

// Whether a Job has ended and reports the end of ranks whose programs have not ended in these objects: each
// kind of object may have a watch of its own, so the end of a Job may come before the end of its pods. Also
// true if the pods are gone.
bool lacks_ends_of_pods(const RunObjects& objects);

// The names of the Jobs that continue unless mlk suspends them: they have pods, or would start a pod again.
std::vector<std::string> jobs_going_on(const RunObjects& objects);

}  // namespace mlk
