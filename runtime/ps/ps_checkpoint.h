// Checkpoints of a run with parameter servers: every server writes the file of its own shard, server 0 leads
// and commits.
//
// sync: all shards are copied while no worker has work, between two steps: the weights are those of exactly
// that step. async: workers go on pushing while the servers copy, one after the other. A chunk's weights and
// its optimizer state are of one moment; two chunks may be some updates apart, as they are for every worker
// that trains. What workers had been granted and had not pushed is not in it, nor in its position.
//
// A SIGTERM that leaves nobody to finish a step of sync may find chunks that have it and chunks that have
// not: then the weights are those of the step before, and the optimizer state of the first is one update
// ahead.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/membership/peers.h"
#include "runtime/ps/parameter_server.h"
#include "runtime/ps/ps_protocol.h"

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

// Server 0's view of the checkpoint that all make, one at a time. For one thread.
class JointCheckpoints {
 public:
  // All outlive this. own: the part of this server.
  JointCheckpoints(Job& job, Peers& peers, const ServedModel& model, ShardCheckpoint& own);

  std::optional<TrainingState> restore();
  // Throws Failure{bad_configuration} if a mark that another server left in its folder is not in this one's,
  // which can be written. mark: its name, or empty.
  void require_shared(std::uint32_t server, const std::string& mark);

  // A checkpoint of this step is asked for and is not there.
  bool wanted(std::uint64_t step) const;
  void start(std::uint64_t step, std::uint64_t position, const RunHistory& history,
             const std::set<std::uint32_t>& others);
  bool under_way() const { return round_ || commit_.valid(); }
  bool copying() const { return round_ && !round_->copying.empty(); }  // nobody may train meanwhile

  void captured(std::uint32_t server, std::uint64_t step);
  void written(std::uint32_t server, const WrittenMessage& written);
  // The checkpoint under way is not made.
  void give_up(const std::string& reason);
  void tick();

  // The newest step of which there is a checkpoint; 0: none is known of.
  std::uint64_t committed() const { return committed_; }

 private:
  struct Round {
    Manifest manifest;
    std::string aside;
    std::set<std::uint32_t> copying, writing;  // servers
    SteadyTime since;
  };

  Job& job_;
  Peers& peers_;
  const ServedModel& model_;
  ShardCheckpoint& own_;
  const CheckpointStore store_;
  std::set<std::string> found_marks_;
  std::optional<Round> round_;
  std::uint64_t committing_ = 0, committed_ = 0;
  std::future<bool> commit_;  // true: there is a checkpoint of step committing_
};

}  // namespace mlk::rt
