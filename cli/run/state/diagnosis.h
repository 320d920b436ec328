// Explains why a rank is not running, and how pods ended. Internal to run/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/run/facts/facts.h"
#include "cli/run/state/status.h"

namespace mlk {

// The weights of causes. In general, a cause weighs more if only the user can remove it, and less if it soon
// passes or does not keep the program from running.
namespace cause_weight {
inline constexpr int beside = 5;       // the program runs, or has ended well; another container has a problem
inline constexpr int removed = 10;     // the Job of the rank had succeeded
inline constexpr int starting = 15;    // `main` waits for another container
inline constexpr int restarting = 20;  // the new pod of the rank has not started yet
inline constexpr int unscheduled = 30;      // no node fits, or a scheduling gate is set
inline constexpr int failed_for_good = 35;  // one rank failed; other causes may show why
inline constexpr int node_lost = 40;
inline constexpr int failed = 45;             // the rank is tried again, or its pod has not ended yet
inline constexpr int cannot_begin = 50;       // a volume, the network, or a pod that is refused for now
inline constexpr int quota_used_up = 55;      // the pod waits until other pods end
inline constexpr int container_problem = 60;  // the image cannot be pulled, or the container cannot be made
inline constexpr int refused = 80;            // the cluster never accepts such a pod
inline constexpr int image_name = 90;
inline constexpr int short_of_ranks = 100;  // added to a cause that stops the whole run
}  // namespace cause_weight

// A cause that keeps ranks from running. mlk shows the cause with the largest weight.
struct Cause {
  int weight = 0;
  std::string text{};
  bool cannot_start = false;
  std::string role{};
  std::vector<int> ranks{};  // empty: the Job as a whole
};

// Why the program of a live pod does not run: the program has not started yet, or has ended before its pod.
// Weight 0 if no cause is known.
Cause why_pod_waits(const PodFacts& pod, const JobFacts& job, const Facts& facts);
// Why a Job makes no pods, for example because of a quota. The weight is 0 if no cause is known.
Cause why_no_pod(const JobFacts& job, const Facts& facts);

// "the program has ended (exit code 3), its pod waits for container agent"; empty if the pod waits for
// nothing.
std::string what_keeps_pod(const PodFacts& pod);

// For a pod whose program runs or has ended well: the problem of another container, such as "container agent:
// exit code 2: no config"; empty if there is no problem.
std::string trouble_beside(const PodFacts& pod);

// Describes the end of a pod that failed or was lost, or of a pod whose program has failed. `newest`: no
// later pod of the rank exists.
Failure describe_end(const PodFacts& pod, const JobFacts& job, bool newest);

// "exit code 3: cannot open /data/x"
std::string what_happened(const Failure& failure);
// The text of what_happened(), followed by " (try 1 of 4, next in 10s)".
std::string one_line(const Failure& failure, Time now);

// Joins equal causes of several ranks. The heaviest cause comes first.
std::vector<Cause> merge_causes(std::vector<Cause> causes);
std::string one_line(const Cause& cause);  // "worker/0-2,5: ..."

}  // namespace mlk
