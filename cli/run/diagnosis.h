// Explains why a rank is not running and how pods ended. Internal to run/.
#pragma once

#include <string>
#include <vector>

#include "cli/run/facts.h"
#include "cli/run/status.h"

namespace mlk {

// A cause that keeps ranks from running. The one with the largest weight is shown.
struct Cause {
  int weight = 0;
  std::string text;
  bool cannot_start = false;
  std::string role;
  std::vector<int> ranks;  // empty: the Job as a whole
};

// Why a live pod does not run yet; weight 0 if no cause is known.
Cause why_pod_waits(const PodFacts& pod, const JobFacts& job, const Facts& facts);
// Why a Job makes no pods: quota, admission; weight 0 if no cause is known.
Cause why_no_pod(const JobFacts& job, const Facts& facts);

// The end of a pod that failed or was lost. `newest`: no later pod of the rank exists.
Failure describe_end(const PodFacts& pod, const JobFacts& job, bool newest);

// "exit code 3: cannot open /data/x"
std::string what_happened(const Failure& failure);
// The same, with " (try 1 of 4, next in 10s)".
std::string one_line(const Failure& failure, Time now);

// Joins equal causes of several ranks, the heaviest first.
std::vector<Cause> merge_causes(std::vector<Cause> causes);
std::string one_line(const Cause& cause);  // "worker/0-2,5: ..."

std::string last_line(const std::string& text);

// The object of CONTRACT.md in a termination message; null if it has none.
nlohmann::json parse_result(const std::string& termination_message);

}  // namespace mlk
