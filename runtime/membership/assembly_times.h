// How long the ranks of an allreduce run wait for each other's answers.
#pragma once

#include <chrono>

#include "runtime/membership/membership.h"
#include "runtime/transport/event.h"

namespace mlk::rt {

inline constexpr Milliseconds propose_patience{3000};  // how long the proposer waits for all to accept
inline constexpr Milliseconds begin_patience{5000};    // after an accept, for the generation to begin
inline constexpr Milliseconds reach_patience{2500};    // after a proposal, for the members to connect
inline constexpr Milliseconds retry_pause{100};        // after a refusal
// A member whose connection has ended counts as dead only after this time. A live member that has only lost
// its connection dials again much sooner.
inline constexpr Milliseconds return_patience{1000};
// If no event comes, a rank waits this long after the start of assembling, and then checks whether it is to
// propose.
inline constexpr Milliseconds settling_time{50};
inline constexpr auto start_grace =
    std::chrono::duration_cast<Milliseconds>(std::chrono::duration<double>(start_grace_seconds));

}  // namespace mlk::rt
