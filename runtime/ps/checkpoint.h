// What touches the disk when servers save together: a server's own part, and what server 0 decides
// (joint_checkpoint.h).
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/launch/job.h"
#include "runtime/ps/machines/parameter_server.h"
#include "runtime/ps/machines/protocol.h"
#include "runtime/ps/machines/turn.h"

namespace mlk::rt {

// The part of one server. For one thread.
class ShardCheckpoint {
 public:
  // All outlive this.
  ShardCheckpoint(const Job& job, std::uint32_t server, const ServedModel& model);
  ~ShardCheckpoint();
  ShardCheckpoint(const ShardCheckpoint&) = delete;
  ShardCheckpoint& operator=(const ShardCheckpoint&) = delete;

  // Leaves a mark in the folder, by which server 0 sees that it is the one that it has too. The name of the
  // mark; empty if there is no folder, or none that can be written.
  std::string leave_mark() const;
  // As CheckpointStore::why_unwritable(); empty without a folder.
  std::string why_unwritable() const;

  // Copies the shard and has the copy written by another thread. When it returns training may go on.
  // history: from server 0.
  void capture(const CaptureMessage& capture, const RunHistory& history = {});
  bool writing() const { return written_.valid(); }
  // What became of a capture: once for each.
  std::optional<WrittenMessage> take_written();

 private:
  std::string copy(const CaptureMessage& capture);  // what is wrong

  const Job& job_;
  const std::uint32_t server_;
  const ServedModel& model_;
  const CheckpointStore store_;
  const std::string mark_ = CheckpointStore::name_mark();
  std::vector<WrittenMessage> refused_;
  Snapshot snapshot_;
  std::future<WrittenMessage> written_;  // after what its thread uses
};

struct FolderDone {
  bool committed = false;  // the checkpoint is there
  std::string why;         // a commit has failed
};

// The folder as server 0 sees it. For one thread.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(const Job& job);  // which outlives this

  // Throws Failure{bad_configuration} if this server can write to its folder and does not find there the mark
  // that another server has left. mark: its name, or empty.
  void require_shared(std::uint32_t server, const std::string& mark);

  // Another thread does the work, except for a discard without an answer. The caller takes the answer by
  // take_done() before it asks for more.
  void commit(const CommitCheckpoint& wanted);
  void discard(const DiscardAside& wanted);
  // What became of it, once.
  std::optional<FolderDone> take_done();

  // That nothing can be saved there; nothing if it can be, or without a folder.
  std::optional<Failure> unwritable() const;
  // As CheckpointStore::load_newest(); nothing without a folder.
  std::optional<TrainingState> load(std::span<const TensorInfo> tensors) const;

 private:
  const bool there_;
  const CheckpointStore store_;
  std::set<std::string> found_marks_;
  std::future<FolderDone> done_;
};

}  // namespace mlk::rt
