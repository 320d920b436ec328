// One call of the state machine of a server: the time of the call, and the decisions of the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "runtime/base/exit_code.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/membership/turn.h"
#include "runtime/ps/machines/protocol.h"

namespace mlk::rt {

inline constexpr PeerId server_0{Role::server, 0};  // it has the coordinator

// The decisions that only a server makes. Its other decisions are the effects of membership/effects.h
// (messages, dials, log lines) and the decisions of membership/turn.h.

// This server forgets its weights, and accepts seeds of that round (seeding.h) from now on. 0: it forgets its
// weights and accepts no seeds.
struct OpenSeeding {
  std::uint64_t round = 0;
};
// Load the newest checkpoint. The answer: loaded() or unusable().
struct LoadCheckpoint {};
// Seed the servers from the loaded checkpoint: this server at once, the others by seed messages.
struct SeedFromCheckpoint {
  std::set<std::uint32_t> servers;
  std::uint64_t round = 0;
};
// Copy this server's part of a checkpoint and write it. The answer: written().
struct CapturePart {
  CaptureMessage capture;
  RunHistory history = {};
};
// Make the parts in the temporary folder a checkpoint. The answer: disk_done().
struct CommitCheckpoint {
  std::string aside;
  Manifest manifest;
};
// Remove the temporary folder. If an answer is wanted: disk_done(false).
struct DiscardAside {
  std::string aside;
  bool answer = false;
};
// The state of the run, for the metrics of this process.
struct ShowRun {
  RunView run;
};
// Send this message to server 0, with the name of a mark that this server leaves in its folder for
// checkpoints. If this server cannot write to the folder, the message also has the reason.
struct SendMark {
  Header header;
};
// Check that the mark of that server is in this server's folder. If the mark is missing, although this server
// can write to the folder, the servers do not share a folder, and the run ends.
struct RequireShared {
  std::uint32_t server = 0;
  std::string mark;
};
// Weights are queued for the worker: send ServerMachine::next_weights() as long as its connection has room.
struct FlushWeights {
  PeerId worker;
};
// The process ends.
struct End {
  ExitCode code = ExitCode::trained;
  bool trained = false;
  std::string message = {};                      // the reason, if the run is not trained
  std::optional<std::uint64_t> checkpoint = {};  // the newest step with a checkpoint, if this server knows it
};

using Turn =
    TurnOf<OpenSeeding, LoadCheckpoint, SeedFromCheckpoint, CapturePart, CommitCheckpoint, DiscardAside,
           ShowRun, SendMark, RequireShared, FlushWeights, CountLate, RunIsTrained, End>;

}  // namespace mlk::rt
