// One call of the state machine of a worker: the time of the call, and the decisions of the machine.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/metrics/step_clock.h"
#include "runtime/ps/machines/protocol.h"
#include "runtime/ps/machines/turn.h"

namespace mlk::rt {

// Post buffers for the weights of this tag (WeightBook), so that the weights arrive without a copy.
struct ExpectWeights {
  std::uint64_t generation = 0, tag = 0;
};
// Take all posted buffers back.
struct CancelReceives {};
// Send the header with the floats of chunk header.key: its gradients for a push, its parameters for a seed.
struct SendChunk {
  PeerId to;
  Header header;
};
// The current message has the new weights of the chunk: store them. They did not come into a posted buffer.
struct StoreWeights {
  std::uint32_t chunk = 0;
};
// sync: copy the weights of the next step to the model. Take all posted buffers back.
struct UseNextWeights {};

// From now on, the step clock counts the time for this activity.
struct TurnClock {
  StepClock::Activity activity = StepClock::Activity::other;
};
// Drop the times since the last step, because they belong to no step.
struct ForgetTimes {};
// Compute a slice of the next step offline with the model. The answer: offline_advanced().
struct OfflineSlice {
  std::uint64_t step = 0, position = 0;
};
struct AbandonOfflineStep {};
struct ForgetOfflineSteps {};
struct NoteCheckpoint {
  std::uint64_t step = 0;          // the newest step with a checkpoint
  std::optional<Unsaved> unsaved;  // set if later checkpoints could not be made
};
struct NoteProgress {
  Progress progress;
};
// The model is at this step: evaluate and print what is due.
struct ReportStep {
  std::uint64_t step = 0, position = 0, restored_step = 0;
};
// Make the last report. The answer: evaluated().
struct Evaluate {
  std::uint64_t step = 0, position = 0;
};
// Compute the gradients of this slice. The answer: computed().
struct ComputeSlice {
  std::uint64_t position = 0, samples = 0;
};
// This worker has done its part of the step. The answer: step_counted().
struct CountStep {
  std::uint64_t step = 0, samples = 0;
};
using WorkerTurn =
    TurnOf<ExpectWeights, CancelReceives, SendChunk, StoreWeights, UseNextWeights, CountLate, TurnClock,
           ForgetTimes, OfflineSlice, AbandonOfflineStep, ForgetOfflineSteps, NoteCheckpoint, NoteProgress,
           ReportStep, Evaluate, ComputeSlice, CountStep, EndTrained, EndWithFound, EndTerminated>;

}  // namespace mlk::rt
