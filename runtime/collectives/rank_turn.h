// One call of the state machine of an allreduce rank: the time at which it happens, and what it wants done.
#pragma once

#include <cstdint>

#include "runtime/membership/turn.h"

namespace mlk::rt {

// Nobody has a state: the newest checkpoint, or the start. The answer: state_made().
struct MakeState {};
// The whole state goes to this rank, as StateMessages of the generation.
struct SendState {
  std::uint32_t rank = 0;
};
// The floats of this StateMessage become a part of the state, which is not whole before the last one.
struct StoreState {
  Event part;
};
// The connection with this rank has ended. What came early from it, for a generation that has not begun here,
// is of no use any more: numbers of generations may be used again by a run that begins anew.
struct ForgetFrames {
  std::uint32_t rank = 0;
};
// The first step of a generation comes next.
struct BeginSteps {};
// The samples [begin, end) of the run are this rank's part of the step. The sum over all members becomes the
// next state. The answer: step_taken(); or step_given_up() when goes_on() is false, or the sum has failed: no
// event comes in between.
struct TakeStep {
  std::uint64_t begin = 0, end = 0;
};
// A step is done and this rank reports: a checkpoint and a report may be due.
struct AfterStep {};
// The last checkpoint is to be made; the decision is repeated until the answer: last_saved().
struct SaveLast {};
// The last report is made. The answer: reported().
struct ReportTrained {};
// A checkpoint is made at once, since the process ends.
struct SaveNow {};
// The process ends with the result that it has reported.
struct EndReported {};

using RankTurn = TurnOf<MakeState, SendState, StoreState, ForgetFrames, CountLate, BeginSteps, TakeStep,
                        AfterStep, SaveLast, ReportTrained, RunIsTrained, SaveNow, EndTrained, EndWithFound,
                        EndTerminated, EndReported>;

}  // namespace mlk::rt
