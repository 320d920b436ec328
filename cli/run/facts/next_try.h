// Predicts whether and when the Job controller starts a rank again. Pure.
#pragma once

#include <optional>

#include "cli/util/time.h"

namespace mlk {

struct PodFacts;
struct JobFacts;

// Whether this pod, the newest of its rank, was the last try of the rank, because the tries are used up or
// the Job's policy allows no further try.
bool was_last_try(const PodFacts& pod, const JobFacts& job);

// The time at which the next pod of the rank is made. Empty if no next pod comes (the run, the Job or the
// rank is over) or if the pod has not ended yet. `pod`: the newest of its rank.
std::optional<Time> next_try(const PodFacts& pod, const JobFacts& job);

}  // namespace mlk
