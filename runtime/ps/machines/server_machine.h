// A parameter server without its process: it handles each message, records which weights it has to send to
// which worker, and decides when and how it ends. Server 0 also coordinates. Pure: the process around it
// (server.cpp) has the sockets, the clock and the disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "kernels/ops.h"
#include "runtime/ps/machines/coordinator.h"
#include "runtime/ps/machines/parameter_server.h"
#include "runtime/ps/machines/turn.h"

namespace mlk::rt {

class ServerMachine {
 public:
  struct Settings {
    std::uint32_t rank = 0;
    Coordinator::Settings run;
    int failures = 0;                // how often this server's pod has failed so far
    std::chrono::seconds late = {};  // how long a trained run waits for workers that have not ended
  };
  // ops must outlive this object.
  ServerMachine(const Settings& settings, kernels::Ops& ops, SteadyTime now);

  void handle(const Event& event, Turn& turn);
  void stop() { stop_requested_ = true; }  // SIGTERM
  // Advances work that waits for time or disk. Called at least every 100 ms, and after each disk_done() and
  // written().
  void tick(Turn& turn);

  // The answers to the decisions of turn.h.
  void open_seeding(std::uint64_t round) { model_.open_seeding(round); }
  void loaded(const TrainingState* saved, Turn& turn);  // null: there is no checkpoint
  void unusable(const Failure& why, Turn& turn);
  void unwritable(const Failure& why);         // nothing can be saved; call before loaded() or unusable()
  void seed_from(const TrainingState& saved);  // this server's part of SeedFromCheckpoint
  void written(const WrittenMessage& written, Turn& turn);  // the result for this server's part
  void disk_done(bool committed, const std::string& why = "");

  // The next weights to send to the worker. Called only while the connection of the worker has room: the
  // queue lists only chunks, so the worker gets weights as new as possible.
  struct Weights {
    Header header;
    std::span<const float> values;
  };
  std::optional<Weights> next_weights(PeerId worker);
  bool has_queued(PeerId worker) const {
    const auto queued = queued_.find(worker.rank);
    return queued != queued_.end() && !queued->second.empty();
  }

  const ServedModel& model() const { return model_; }
  bool saving() const { return coordinator_ && coordinator_->saving(); }
  bool ends() const { return coordinator_ && (coordinator_->finished() || coordinator_->terminated()); }

 private:
  void on_up(const Event& event, Turn& turn);
  void on_lost(const Event& event, Turn& turn);
  void on_audible(const Event& event, Turn& turn);
  void on_message(const Event& event, Turn& turn);
  void dispatch_to_coordinator(const Event& event, Turn& turn);
  void on_join(const Event& event, Turn& turn);
  bool know_model(const Event& event, const JoinMessage& join, Turn& turn);
  void on_seed_wanted(const Event& event, Turn& turn);
  void on_seed(const Event& event, Turn& turn);
  void on_push(const Event& event, Turn& turn);
  void on_update(const Event& event, std::span<const float> gradient, Turn& turn);
  void on_pull(const Event& event, Turn& turn);
  void on_capture(const Event& event, Turn& turn);
  bool lacks_weights_of(std::uint64_t step) const;
  void send_without(std::uint64_t step, Turn& turn);
  void queue_weights(PeerId worker, std::uint32_t chunk, std::uint64_t tag, Turn& turn);
  void introduce(Turn& turn);
  void finish(const Bytes& result, Turn& turn);
  void end_if_over(Turn& turn);
  bool everyone_has_ended(SteadyTime now) const;
  std::chrono::seconds patience() const;
  bool sync() const { return settings_.run.config.consistency.sync; }

  const Settings settings_;
  kernels::Ops& ops_;
  ServedModel model_;
  std::optional<Coordinator> coordinator_;  // server 0 only
  // The workers that have joined, and the generation in the last message of each of them.
  std::map<std::uint32_t, std::uint64_t> workers_;
  std::map<std::uint32_t, std::uint64_t> linked_;  // workers that are connected, with their incarnations
  // For each worker: the chunks whose weights it gets as soon as its connection has room, each with the tag
  // of the answer.
  std::map<std::uint32_t, std::map<std::uint32_t, std::uint64_t>> queued_;
  std::set<std::uint32_t> left_;         // workers that have ended with exit code 0
  std::optional<SteadyTime> last_loss_;  // the last loss of a worker that had not ended with exit code 0
  std::set<std::uint32_t> servers_;      // other servers that are connected
  SteadyTime heard_;
  SteadyTime stuck_since_;  // since when workers wait in vain, see end_if_over()
  bool met_ = false;        // a worker was connected at some time
  bool stop_requested_ = false;
  std::optional<SteadyTime> finished_, stopped_;
  bool server_0_left_ = false;  // server 0 has ended with exit code 0
  Bytes result_;                // the result of the reporter, once finished
};

}  // namespace mlk::rt
