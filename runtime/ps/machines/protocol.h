// What workers and servers say to each other. Server 0 coordinates.
//
// A worker that is connected with all servers sends join to each, and ready to server 0, which answers with
// work (a slice of a step), wait, trained or finish. The worker pushes its gradients in chunks to the servers
// that hold them:
//
// - sync: the server answers accepted. When a chunk has all slices of its clock, the server sends its new
//   weights to all workers.
// - async: the server answers with the new weights at once.
//
// When all chunks are answered, ready says that the slice is done and asks for the next.
//
// A server that has lost its weights gets seeds, in a round (seeding.h): server 0 sends it seed_wanted
// (header.clock: the round), is answered the same, and asks a worker with seed_wanted (header.key: the
// server) for seeds (header.clock: of the weights; header.offset: the round; header.key: chunk). The server
// that has all says seeded.
//
// A worker that has lost a server tells server 0 that it is cut off, and joins again when it has it back.
//
// For a checkpoint server 0 sends capture to the others, which copy what they hold and answer captured; then
// training goes on. When a server has written its copy it sends written.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/payload.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/metrics/telemetry.h"
#include "runtime/model/model.h"
#include "runtime/transport/wire.h"

namespace mlk::rt {

// A range of one tensor, the unit of pushes. Offset and size count floats in the arena.
struct Chunk {
  std::uint32_t id = 0, server = 0;
  std::size_t offset = 0, size = 0;
};

// 512 KiB of floats: large enough that to wake the other side for each costs little, small enough for the
// cache of the server.
inline constexpr std::size_t chunk_floats = 128 * 1024;

// All chunks of the model in the order of their ids, each placed at the server with the least bytes so far.
// The same at every process.
std::vector<Chunk> cut_chunks(std::span<const TensorInfo> tensors, std::uint32_t servers);

// join: who the worker is, and from where it could seed a server that lost everything.
struct JoinMessage {
  std::uint64_t clock = 0;     // header.clock: the step that its parameters are at; 0: as initialised
  std::uint64_t position = 0;  // samples taken by the run at that step
  std::uint64_t offline = 0;   // number of its last steps that it made offline and no server has
  std::uint64_t restarts = 0, lost_samples = 0;  // of the run, as the worker was last told
  std::vector<TensorInfo> tensors;
  std::optional<DataSummary> data = {};  // that it trains with
};
Bytes encode(const JoinMessage& join);
std::optional<JoinMessage> decode_join(const Header& header, std::span<const std::byte> payload);

// ready: asks for work, and says what came of the last.
struct ReadyMessage {
  bool done = false;  // the slice below was pushed whole
  std::uint64_t clock = 0;
  std::uint32_t slice = 0;
  double loss = 0;              // mean over the slice
  double seconds = 0;           // that the slice took, waiting for others left out
  std::uint64_t staleness = 0;  // bounded: of the weights that it was computed with, as in WorkMessage
};
Bytes encode(const ReadyMessage& ready);
std::optional<ReadyMessage> decode_ready(std::span<const std::byte> payload);

// What the coordinator tells of the run. Loss and staleness are sums over the slices done since the rank that
// reports was last told. Other ranks get neither sums nor the slowest rank.
struct Progress {
  double loss_sum = 0;
  std::uint64_t loss_count = 0;
  Staleness staleness;
  RunView run;
};

// work. header.generation: of the membership; header.clock: updates done; header.key: the slice.
//
// Bounded staleness, as in "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server",
// Ho et al., NIPS 2013: the weights for a worker's slice c hold the updates of the first c - bound slices of
// every other worker. A worker whose weights are older pulls; server 0 has seen to it that it finds what it
// needs. The staleness of weights is c less the slices of each other worker that they surely hold.
struct WorkMessage {
  std::uint64_t position = 0;  // of the slice's first sample
  std::uint32_t samples = 0;
  std::uint64_t own_slices = 0;     // bounded: that the receiver has done
  std::uint64_t others_slices = 0;  // bounded: that every other worker has done, at most own_slices + 1
  std::uint64_t run_position = 0;   // samples taken by the whole run
  std::uint64_t restored_step = 0;
  std::uint64_t checkpoint = 0;    // the newest step of which there is one; 0: none is known of
  std::optional<Unsaved> unsaved;  // none could be made since
  bool reports = false;            // the receiver is the lowest live rank
  Progress progress;
};
Bytes encode(const WorkMessage& work);
std::optional<WorkMessage> decode_work(std::span<const std::byte> payload);

// trained: asks the lowest live rank for the last report. header.clock: updates done.
struct TrainedMessage {
  std::uint64_t run_position = 0, checkpoint = 0;  // as in WorkMessage
  Progress progress;
};
Bytes encode(const TrainedMessage& trained);
std::optional<TrainedMessage> decode_trained(std::span<const std::byte> payload);

// capture: a checkpoint of step header.clock is made in this temporary folder (`aside`).
struct CaptureMessage {
  std::uint64_t step = 0, position = 0;
  std::string aside;
};
Bytes encode(const CaptureMessage& capture);
std::optional<CaptureMessage> decode_capture(const Header& header, std::span<const std::byte> payload);

// written: what became of one server's part.
struct WrittenMessage {
  std::uint64_t step = 0;  // header.clock
  std::string aside;       // of the capture
  WrittenFile file;        // has no name if the part was not written
  std::string reason;      // why it was not
};
Bytes encode(const WrittenMessage& written);
std::optional<WrittenMessage> decode_written(const Header& header, std::span<const std::byte> payload);

inline constexpr std::uint8_t flag_optimizer = 1;  // of seed: the optimizer's state follows the weights
inline constexpr std::uint8_t flag_running = 1;    // of wait: the run goes on, there is just nothing to do
inline constexpr std::uint8_t flag_rejoin = 2;     // of wait: send join again
inline constexpr std::uint8_t flag_empty = 1;      // of join between servers: the sender has no weights
inline constexpr std::uint8_t flag_without = 2;    // the same: it has none of the step header.clock
inline constexpr std::uint8_t flag_behind = 1;     // of accepted: the server is behind, join again

}  // namespace mlk::rt
