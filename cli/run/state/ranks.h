// The ranks of a run, and the ends of their pods, with the likely cause first. Pure; internal to run/.
#pragma once

#include <string_view>
#include <vector>

#include "cli/run/facts/facts.h"
#include "cli/run/state/diagnosis.h"

namespace mlk {

// How far a rank is. The phase of a run depends on the states of its ranks.
enum class RankState { absent, unscheduled, starting, restarting, lost, removed, failed, running, succeeded };

struct Rank {
  const JobFacts* job = nullptr;
  int number = 0;
  std::vector<const PodFacts*> pods;  // oldest first
  RankState state = RankState::absent;
  int restarts = 0;
  Cause cause;
};

struct PodEnd {
  const PodFacts* pod = nullptr;
  Failure failure;
  bool cascade =
      false;  // ended by the Job controller because the Job had ended, or because the run was stopped
  bool blames_a_peer = false;
};

// The rank's pod in which the program ended well; nullptr if there is no such pod. With such a pod the rank
// is done, even if the Job has made a new pod because another container failed.
const PodFacts* done_pod(const Rank& rank);

// The ranks of all Jobs. They point into `facts`.
std::vector<Rank> collect_ranks(const Facts& facts);
// The ranks that still have pods although their Job is gone.
std::vector<Rank> collect_ranks_left(const Facts& facts);

// The ends of pods that failed, and of programs that failed before their pods ended. An end that caused other
// ends comes first.
std::vector<PodEnd> collect_ends(const std::vector<Rank>& ranks, bool stopped);

// The end that caused the failure of a run, and not an earlier loss from which the run recovered. nullptr if
// no end of a pod is the cause.
const PodEnd* first_cause(const std::vector<PodEnd>& ends, const JobFacts& decider);

std::string_view state_name(const Rank& rank);  // "Running", "Missing" ...

}  // namespace mlk
