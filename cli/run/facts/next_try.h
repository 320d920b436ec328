// Whether the Job controller starts a rank again, and when. Pure.
#pragma once

#include <optional>

#include "cli/util/time.h"

namespace mlk {

struct PodFacts;
struct JobFacts;

// Whether the failure of this pod, the newest of its rank, is the rank's last: its tries are used up, or the
// Job's policy lets it have no more.
bool was_last_try(const PodFacts& pod, const JobFacts& job);

// When the next pod of the rank is made; nothing where none comes: the run, the Job or the rank is over, or
// the pod has not ended yet. `pod`: the newest of its rank.
std::optional<Time> next_try(const PodFacts& pod, const JobFacts& job);

}  // namespace mlk
