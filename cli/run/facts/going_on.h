// What of a run still goes on. Pure.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/run/facts/run_objects.h"
#include "cli/util/time.h"

namespace mlk {

// Whether there is a pod that has not ended and can still report: a pod on a lost node cannot.
bool has_live_pods(const RunObjects& objects, Time now);
// Whether there is one whose program runs.
bool has_running_programs(const RunObjects& objects, Time now);
// Whether an ended run still has something to tell, so long after its end was seen: a program that runs has,
// for `patience`; a pod that the kubelet has not yet said to have ended with it, for 10 s more; one that
// waits for another container, for 10 s. Who suspends its Job earlier removes it, with its log.
bool is_settling(const RunObjects& objects, Time now, std::chrono::nanoseconds since_end,
                 std::chrono::seconds patience);

// The names of the Jobs that would continue by themselves: they have pods, or would start one again.
std::vector<std::string> jobs_going_on(const RunObjects& objects);

}  // namespace mlk
