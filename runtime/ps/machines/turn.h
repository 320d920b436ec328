// One call of the state machine of a server: the time of the call, and what the machine wants done.
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

inline constexpr PeerId server_0{Role::server, 0};  // has the coordinator

// What a server decides and its process carries out, besides messages, dials, lines of the log and what
// membership/turn.h has.

// This server forgets its weights, and takes seeds of that round (seeding.h) from now on. 0: forgets its
// weights and accepts no seeds.
struct OpenSeeding {
  std::uint64_t round = 0;
};
// The newest checkpoint is looked for. The answer: loaded() or unusable().
struct LoadCheckpoint {};
// The servers get their weights from the checkpoint that was loaded, this one at once, the others by seeds.
struct SeedFromCheckpoint {
  std::set<std::uint32_t> servers;
  std::uint64_t round = 0;
};
// This server copies its part of a checkpoint and writes it. The answer: written().
struct CapturePart {
  CaptureMessage capture;
  RunHistory history = {};
};
// The parts in the temporary folder become a checkpoint. The answer: disk_done().
struct CommitCheckpoint {
  std::string aside;
  Manifest manifest;
};
// The temporary folder is removed. With an answer: disk_done(false).
struct DiscardAside {
  std::string aside;
  bool answer = false;
};
// The state of the run, for this process's own metrics.
struct ShowRun {
  RunView run;
};
// This message goes to server 0 with the name of a mark that this server leaves in its folder for
// checkpoints, and, where it cannot be written, with the reason.
struct SendMark {
  Header header;
};
// Checks that this server sees the mark of that server. If not, and if it can write to its folder, the run
// ends: they do not share a folder.
struct RequireShared {
  std::uint32_t server = 0;
  std::string mark;
};
// Weights are queued for the worker: ServerMachine::next_weights().
struct FlushWeights {
  PeerId worker;
};
// The process ends.
struct End {
  ExitCode code = ExitCode::trained;
  bool trained = false;
  std::string message = {};                      // why, if it is not trained
  std::optional<std::uint64_t> checkpoint = {};  // the newest step that has one, where it is known
};

using Turn =
    TurnOf<OpenSeeding, LoadCheckpoint, SeedFromCheckpoint, CapturePart, CommitCheckpoint, DiscardAside,
           ShowRun, SendMark, RequireShared, FlushWeights, CountLate, RunIsTrained, End>;

}  // namespace mlk::rt
