// Checkpoints of a run with parameter servers: every server writes the file of its own shard, and server 0
// coordinates and commits.
//
// sync: all shards are copied between two steps, while no worker has work. So all weights are of the same
// step. async: each server copies its shard at a slightly different time, and meanwhile workers still push
// the slices that they have begun. A chunk's weights and its optimizer state are of the same moment. Two
// chunks may be some updates apart, as they are for every worker that trains. The weights and the position do
// not include slices that workers are still computing.
//
// sync: after a SIGTERM, some chunks may already have the update of the current step, and other chunks may
// not. Then the saved weights are those of the step before. But for each chunk that already has the update,
// the saved optimizer state is one update ahead.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "runtime/ps/machines/turn.h"

namespace mlk::rt {

// Returns a new name for the temporary folder of a checkpoint of this step; see
// CheckpointStore::name_aside().
using NameAside = std::function<std::string(std::uint64_t step)>;

// The checkpoints that all servers make together, one after the other, as server 0 sees them. Pure:
// runtime/ps/checkpoint.h reads and writes the files.
class JointCheckpoints {
 public:
  // wanted: whether there is a folder for checkpoints. patience: the time within which all servers must write
  // their parts.
  JointCheckpoints(bool wanted, std::chrono::seconds patience, NameAside name_aside)
      : asked_for_(wanted), patience_(patience), name_aside_(std::move(name_aside)) {}

  // Whether a checkpoint of this step is needed and does not exist yet.
  bool wanted(std::uint64_t step) const { return asked_for_ && step != committed_ && step != 0; }
  // manifest: all fields except its files.
  void start(Manifest manifest, const RunHistory& history, const std::set<std::uint32_t>& others, Turn& turn);
  bool under_way() const { return round_ || disk_works_; }
  // True if no checkpoint is under way, and no server still writes its part of an abandoned checkpoint. A
  // server writes only one part at a time.
  bool can_start() const { return !under_way() && still_writing_.empty(); }
  bool copying() const { return round_ && !round_->copying.empty(); }  // meanwhile no worker gets new work

  void captured(std::uint32_t server, std::uint64_t step);
  void written(std::uint32_t server, const WrittenMessage& written, Turn& turn);
  // The work of CommitCheckpoint or DiscardAside is done. committed: whether the checkpoint exists. why: the
  // reason if a commit has failed, otherwise empty.
  void disk_done(bool committed, const std::string& why = "");
  void server_lost(std::uint32_t server, Turn& turn);
  void tick(Turn& turn);

  // The newest checkpoint on the disk is of this step.
  void loaded(std::uint64_t step) { committed_ = step; }
  // The step since which no checkpoint could be made, and why.
  const std::optional<Unsaved>& unsaved() const { return unsaved_; }
  // The newest step with a checkpoint; 0: no checkpoint is known.
  std::uint64_t committed() const { return committed_; }

 private:
  struct Round {
    Manifest manifest;
    std::string aside;
    std::set<std::uint32_t> copying, writing;  // servers
    SteadyTime since;
  };

  void give_up(const std::string& reason, Turn& turn);
  void failed(std::uint64_t step, const std::string& why);

  const bool asked_for_;
  const std::chrono::seconds patience_;
  const NameAside name_aside_;
  std::optional<Round> round_;
  std::set<std::uint32_t> still_writing_;  // servers that still write a part of an abandoned round
  bool disk_works_ = false;                // a commit, or the cleanup of an abandoned round, is under way
  std::uint64_t committing_ = 0, committed_ = 0;
  std::optional<Unsaved> unsaved_;
};

// The name of the file of a server's part.
std::string part_name(std::uint32_t server);

}  // namespace mlk::rt
