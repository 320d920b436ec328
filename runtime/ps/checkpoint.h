// The work on the disk when servers save together: each server's part, and the work of server 0 for all
// servers. joint_checkpoint.h decides when to do it.
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

// The work of one server on its part. For one thread.
class ShardCheckpoint {
 public:
  // All arguments must outlive this object.
  ShardCheckpoint(const Job& job, std::uint32_t server, const ServedModel& model);
  ~ShardCheckpoint();
  ShardCheckpoint(const ShardCheckpoint&) = delete;
  ShardCheckpoint& operator=(const ShardCheckpoint&) = delete;

  // Leaves a mark in the folder. If server 0 finds the mark, this server uses the same folder as server 0.
  // Returns the name of the mark; empty if there is no folder, or no mark can be written there.
  std::string leave_mark() const;
  // See CheckpointStore::why_unwritable(). Empty if there is no folder.
  std::string why_unwritable() const;

  // Copies the shard. Another thread then writes the copy, and training may continue. history: given only in
  // server 0.
  void capture(const CaptureMessage& capture, const RunHistory& history = {});
  bool writing() const { return written_.valid(); }
  // The result of a capture, once for each capture.
  std::optional<WrittenMessage> take_written();

 private:
  std::string copy(const CaptureMessage& capture);  // returns the error; empty if there is none

  const Job& job_;
  const std::uint32_t server_;
  const ServedModel& model_;
  const CheckpointStore store_;
  const std::string mark_ = CheckpointStore::name_mark();
  std::vector<WrittenMessage> refused_;
  Snapshot snapshot_;
  std::future<WrittenMessage> written_;  // declared after the members that its thread uses
};

struct FolderDone {
  bool committed = false;  // the checkpoint is on the disk
  std::string why;         // why a commit has failed
};

// The work of server 0 on the folder for checkpoints. For one thread.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(const Job& job);  // the job outlives this object

  // Throws Failure{bad_configuration} if this server can write to its folder, but the mark of another server
  // is not in that folder. mark: the name of the mark, or empty.
  void require_shared(std::uint32_t server, const std::string& mark);

  // Another thread does the work, unless it is a discard without an answer. The caller must collect the
  // answer with take_done() before the next request.
  void commit(const CommitCheckpoint& wanted);
  void discard(const DiscardAside& wanted);
  // The result of the request, once.
  std::optional<FolderDone> take_done();

  // Returns the failure if nothing can be saved in the folder. Returns nothing if saving works, or if there
  // is no folder.
  std::optional<Failure> unwritable() const;
  // See CheckpointStore::load_newest(). Returns nothing if there is no folder.
  std::optional<TrainingState> load(std::span<const TensorInfo> tensors) const;

 private:
  const bool there_;
  const CheckpointStore store_;
  std::set<std::string> found_marks_;
  std::future<FolderDone> done_;
};

}  // namespace mlk::rt
