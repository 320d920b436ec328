// The ranks of a run, and how their pods ended, in the order of blame. Pure; internal to run/.
#pragma once

#include <string_view>
#include <vector>

#include "cli/run/facts/facts.h"
#include "cli/run/state/diagnosis.h"

namespace mlk {

// The progress of a rank, in the order of the table: the least advanced of the needed ranks decides the
// phase.
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

// The pod whose program ended well: its rank is done, also when the Job has made another one since, for a
// container that failed. nullptr without one.
const PodFacts* done_pod(const Rank& rank);

// They point into `facts`.
std::vector<Rank> collect_ranks(const Facts& facts);
// Those of which only pods are left: their Job is not there any more.
std::vector<Rank> collect_ranks_left(const Facts& facts);

// Those of pods that failed, and of programs that did before their pods; those that brought others about come
// first.
std::vector<PodEnd> collect_ends(const std::vector<Rank>& ranks, bool stopped);

// The cause of a run's failure, and not an earlier loss from which it recovered.
const PodEnd* first_cause(const std::vector<PodEnd>& ends, const JobFacts& decider);

std::string_view state_name(const Rank& rank);  // "Running", "Missing" ...

}  // namespace mlk
