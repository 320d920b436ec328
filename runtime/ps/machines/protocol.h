// The messages between workers and servers. Server 0 coordinates.
//
// A worker that is connected with all servers sends `join` to each of them, and `ready` to server 0. Server 0
// answers with `work` (a slice of a step), `wait`, `trained` or `finish`. The worker pushes its gradients in
// chunks to the servers that hold them:
//
// - sync: the server answers with `accepted`. When it has all slices of a step for a chunk, it sends the new
//   weights of the chunk to all workers.
// - async: the server answers with the new weights at once.
//
// When all chunks are answered, the worker sends `ready`, which reports the slice as done and asks for the
// next one.
//
// A server without weights gets seeds in a round of seeding (seeding.h). Server 0 sends `seed_wanted`
// (header.clock: the round) to that server, which answers with the same message. Server 0 also sends
// `seed_wanted` (header.key: the server) to a worker, which sends the seeds (header.clock: the clock of the
// weights; header.offset: the round; header.key: the chunk). When the server has all seeds, it sends
// `seeded`.
//
// A worker that has lost a server sends `cut_off` to server 0, and joins again when that server is back.
//
// For a checkpoint, server 0 sends `capture` to the other servers, which copy their shards and answer with
// `captured`. Then training continues. When a server has written its copy to the disk, it sends `written`.
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

// A range of one tensor, the unit of pushes. `offset` and `size` are numbers of floats in the vector of all
// parameters.
struct Chunk {
  std::uint32_t id = 0, server = 0;
  std::size_t offset = 0, size = 0;
};

// 512 KiB of floats: a chunk is large enough that the cost of waking its receiver is small, and small enough
// for the cache of the server.
inline constexpr std::size_t chunk_floats = 128 * 1024;

// All chunks of the model in the order of their ids. Each chunk is placed at the server that has the fewest
// bytes so far. The result is the same in every process.
std::vector<Chunk> cut_chunks(std::span<const TensorInfo> tensors, std::uint32_t servers);

// join: identifies the worker, and the state with which it could seed a server that lost everything.
struct JoinMessage {
  std::uint64_t clock = 0;     // header.clock: the step of the worker's parameters; 0: as initialised
  std::uint64_t position = 0;  // samples that the run has taken at that step
  std::uint64_t offline = 0;   // how many of the steps up to `clock` were made offline; no server has them
  std::uint64_t restarts = 0, lost_samples = 0;  // counts of the run, as far as the worker knows
  std::vector<TensorInfo> tensors;
  std::optional<DataSummary> data = {};  // the data with which the worker trains
};
Bytes encode(const JoinMessage& join);
std::optional<JoinMessage> decode_join(const Header& header, std::span<const std::byte> payload);

// ready: asks for work, and reports the result of the last slice.
struct ReadyMessage {
  bool done = false;  // all gradients of the slice (`clock`, `slice`) were pushed
  std::uint64_t clock = 0;
  std::uint32_t slice = 0;
  double loss = 0;              // mean over the slice
  double seconds = 0;           // time that the slice took, without waiting for others
  std::uint64_t staleness = 0;  // bounded: staleness of the weights used for the slice, as in WorkMessage
};
Bytes encode(const ReadyMessage& ready);
std::optional<ReadyMessage> decode_ready(std::span<const std::byte> payload);

// The report of the coordinator about the run. Loss and staleness are sums over the slices done since the
// last message to the rank that reports. Other ranks get neither the sums nor the slowest rank.
struct Progress {
  double loss_sum = 0;
  std::uint64_t loss_count = 0;
  Staleness staleness;
  RunView run;
};

// work. header.generation: the generation of the membership; header.clock: the updates done; header.key: the
// slice.
//
// Bounded staleness, as in "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server",
// Ho et al., NIPS 2013: the weights for a worker's slice c hold the updates of the first c - bound slices of
// every other worker. A worker pulls if its weights are older. Server 0 grants the slice only when the
// servers hold these updates. The staleness of weights is c - h if these weights certainly hold the first h
// slices of every other worker.
struct WorkMessage {
  std::uint64_t position = 0;  // of the slice's first sample
  std::uint32_t samples = 0;
  std::uint64_t own_slices = 0;     // bounded: the slices that the receiver has done
  std::uint64_t others_slices = 0;  // bounded: those that every other worker has done, at most own_slices + 1
  std::uint64_t run_position = 0;   // samples that the whole run has taken
  std::uint64_t restored_step = 0;
  std::uint64_t checkpoint = 0;    // the newest step with a checkpoint; 0: none is known
  std::optional<Unsaved> unsaved;  // set if later checkpoints could not be made
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

// capture: the servers make a checkpoint of step header.clock in this temporary folder (`aside`).
struct CaptureMessage {
  std::uint64_t step = 0, position = 0;
  std::string aside;
};
Bytes encode(const CaptureMessage& capture);
std::optional<CaptureMessage> decode_capture(const Header& header, std::span<const std::byte> payload);

// written: the result of one server's part.
struct WrittenMessage {
  std::uint64_t step = 0;  // header.clock
  std::string aside;       // of the capture
  WrittenFile file;        // has no name if the part was not written
  std::string reason;      // why the part was not written
};
Bytes encode(const WrittenMessage& written);
std::optional<WrittenMessage> decode_written(const Header& header, std::span<const std::byte> payload);

inline constexpr std::uint8_t flag_optimizer = 1;  // of `seed`: the optimizer's state follows the weights
inline constexpr std::uint8_t flag_running = 1;    // of `wait`: gathering is over, but there is no work now
inline constexpr std::uint8_t flag_rejoin = 2;     // of `wait`: send `join` again
inline constexpr std::uint8_t flag_empty = 1;      // of `join` between servers: the sender has no weights
inline constexpr std::uint8_t flag_without = 2;    // of such a `join`: no weights of step header.clock
inline constexpr std::uint8_t flag_behind = 1;     // of `accepted`: the server is behind, send `join` again

}  // namespace mlk::rt
