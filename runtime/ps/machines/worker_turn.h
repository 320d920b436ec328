// One call of the state machine of a worker: the time of the call, and what the machine wants done.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/metrics/step_clock.h"
#include "runtime/ps/machines/protocol.h"
#include "runtime/ps/machines/turn.h"

namespace mlk::rt {

// Receives are posted for the weights of this tag (WeightBook), so that they come without a copy.
struct ExpectWeights {
  std::uint64_t generation = 0, tag = 0;
};
// All posted receives are taken back.
struct CancelReceives {};
// The header, and with it the chunk header.key: of a push its gradients, of a seed its parameters.
struct SendChunk {
  PeerId to;
  Header header;
};
// The weights that came with this event, in memory of their own, are those of the chunk.
struct StoreWeights {
  std::uint32_t chunk = 0;
};
// sync: the weights of the clock to come become the model's. All posted receives are taken back.
struct TakeNextWeights {};

// From now on time is counted under this activity.
struct TurnClock {
  StepClock::Activity activity = StepClock::Activity::other;
};
// Drops the times measured since the last step: they belong to none.
struct ForgetTimes {};
// The model takes a slice of the next step offline. The answer: offline_advanced().
struct OfflineSlice {
  std::uint64_t step = 0, position = 0;
};
struct AbandonOfflineStep {};
struct ForgetOfflineSteps {};
struct NoteCheckpoint {
  std::uint64_t step = 0;          // the newest that has one
  std::optional<Unsaved> unsaved;  // none could be made since
};
struct NoteProgress {
  Progress progress;
};
// The model is at this step: what is due is evaluated and printed.
struct ReportStep {
  std::uint64_t step = 0, position = 0, restored_step = 0;
};
// The last report is made. The answer: evaluated().
struct Evaluate {
  std::uint64_t step = 0, position = 0;
};
// The answer: computed().
struct ComputeSlice {
  std::uint64_t position = 0, samples = 0;
};
// This worker has done its part of the step. The answer: step_counted().
struct CountStep {
  std::uint64_t step = 0, samples = 0;
};
using WorkerTurn =
    TurnOf<ExpectWeights, CancelReceives, SendChunk, StoreWeights, TakeNextWeights, CountLate, TurnClock,
           ForgetTimes, OfflineSlice, AbandonOfflineStep, ForgetOfflineSteps, NoteCheckpoint, NoteProgress,
           ReportStep, Evaluate, ComputeSlice, CountStep, EndTrained, EndWithFound, EndTerminated>;

}  // namespace mlk::rt
