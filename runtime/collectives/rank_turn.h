// One call of the state machine of an allreduce rank: the time of the call, and the decisions of the machine.
#pragma once

#include <cstdint>

#include "runtime/membership/turn.h"

namespace mlk::rt {

// All members lack a state: load the newest checkpoint, or make the first state. The answer: state_made().
struct MakeState {};
// Send the whole state to this rank, as StateMessages of the generation.
struct SendState {
  std::uint32_t rank = 0;
};
// The floats of this StateMessage become a part of the state. The state is complete only after the last
// message.
struct StoreState {
  Event part;
};
// The connection with this rank has ended. Drop the early frames of this rank: if the run begins anew, it may
// use the same generation numbers again.
struct ForgetFrames {
  std::uint32_t rank = 0;
};
// The next step is the first one of a generation.
struct BeginSteps {};
// The samples [begin, end) of the run are this rank's part of the step. The sum over all members gives the
// next state. The answer: step_taken(), or step_given_up() if goes_on() is false or the sum has failed. The
// machine gets no event before the answer.
struct TakeStep {
  std::uint64_t begin = 0, end = 0;
};
// A step is done, and this rank is the one that reports: make a checkpoint and a report if they are due.
struct AfterStep {};
// Make the last checkpoint. The machine repeats the decision until the answer: last_saved().
struct SaveLast {};
// Make the last report. The answer: reported().
struct ReportTrained {};
// Make a checkpoint at once, since the process ends.
struct SaveNow {};
// The process ends with the result that it has reported.
struct EndReported {};

using RankTurn = TurnOf<MakeState, SendState, StoreState, ForgetFrames, CountLate, BeginSteps, TakeStep,
                        AfterStep, SaveLast, ReportTrained, RunIsTrained, SaveNow, EndTrained, EndWithFound,
                        EndTerminated, EndReported>;

}  // namespace mlk::rt
