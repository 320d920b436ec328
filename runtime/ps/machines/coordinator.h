// Server 0 as the coordinator of a run with parameter servers: it decides which processes take part, which
// worker works on which samples, and when to start, to save and to end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/launch/config.h"
#include "runtime/membership/bounded_wait.h"
#include "runtime/membership/membership.h"
#include "runtime/metrics/pace.h"
#include "runtime/ps/machines/joint_checkpoint.h"
#include "runtime/ps/machines/leases.h"
#include "runtime/ps/machines/protocol.h"
#include "runtime/ps/machines/seeding.h"
#include "runtime/ps/machines/turn.h"

namespace mlk::rt {

// Pure: the caller passes in each event and the time, and executes the decisions in the turn.
class Coordinator {
 public:
  struct Settings {
    Config config;
    std::uint64_t incarnation = 0;  // of this server
    bool saves = false;             // there is a folder for checkpoints
    bool trained = false;           // the last checkpoint is on the disk
    NameAside name_aside;
  };
  Coordinator(const Settings& settings, SteadyTime now);

  // Called with the chunks of the model before the first worker joins.
  void model_is(std::span<const Chunk> chunks);

  void worker_up(PeerId worker);
  void peer_down(PeerId peer, Turn& turn);
  // The worker has lost another server. It gets no work until it is connected with that server again and has
  // joined.
  void worker_cut_off(PeerId worker, Turn& turn);
  void worker_joined(PeerId worker, std::uint64_t incarnation, const JoinMessage& join, Turn& turn);
  // round: the round in which the server got its weights, if it has any.
  void server_joined(std::uint32_t server, bool empty, std::uint64_t round, Turn& turn);
  // sync: that server (0: this server) had to send or save the weights of step `clock`, but its weights are
  // of another step.
  void server_without(std::uint32_t server, std::uint64_t clock, Turn& turn);
  void seeding_opened(std::uint32_t server, std::uint64_t round, Turn& turn) {
    seeding_.opened(server, round, turn);
  }
  void server_seeded(std::uint32_t server, std::uint64_t round, Turn& turn);
  void own_seeded(Turn& turn);  // this server's part of the seeds is complete
  void worker_ready(PeerId worker, const ReadyMessage& ready, Turn& turn);
  // async: a gradient that had missed `staleness` updates was applied.
  void applied(std::uint64_t staleness);
  void captured(std::uint32_t server, std::uint64_t step, Turn& turn);
  void written(std::uint32_t server, const WrittenMessage& written, Turn& turn);
  void worker_reported(std::span<const std::byte> result);

  // The answers to the decisions of turn.h.
  struct Saved {  // the newest checkpoint
    std::uint64_t step = 0, position = 0;
    RunHistory history;
    std::optional<Failure> misfit;  // why the run cannot continue from it, though it can be read
    std::optional<DataSummary> data = {};
  };
  void loaded(const std::optional<Saved>& saved, Turn& turn);
  void unusable(const Failure& why, Turn& turn);  // there are checkpoints, but all are unreadable
  void disk_done(bool committed, const std::string& why = "") { checkpoints_.disk_done(committed, why); }
  // A server cannot save anything. Then the run fails, except if a worker has weights with which it can
  // continue, or if the checkpoint of the last step exists.
  void unwritable(const Failure& why) { unwritable_ = why; }

  // Advances work that waits for time or disk. Called at least every 100 ms, or more often while saving().
  void tick(Turn& turn);
  void stop(SteadyTime now);  // SIGTERM: finish the step, save

  bool gathering() const { return phase_ == Phase::gathering; }
  bool finished() const { return phase_ == Phase::finished; }
  bool saving() const { return phase_ == Phase::saving; }
  bool terminated() const { return phase_ == Phase::terminated; }
  bool has_weights() const { return has_weights_; }  // this server has all weights of its part
  std::uint64_t step() const { return leases_.step(); }
  std::uint64_t committed() const { return checkpoints_.committed(); }  // newest step with a checkpoint, or 0
  const Bytes& result() const { return result_; }  // the result of the trained run, as its reporter sent it

 private:
  enum class Phase { gathering, seeding, running, saving, ending, finished, terminated };
  struct Offer {
    std::uint64_t clock = 0, position = 0, offline = 0;
    std::uint64_t restarts = 0, lost_samples = 0;  // as the worker reports them
  };

  void gather(Turn& turn);
  std::vector<std::string> missing() const;
  void decide(Turn& turn);
  std::map<std::uint32_t, Offer>::const_iterator best_offer() const;
  void go_on_from(const std::optional<Saved>& saved, Turn& turn);
  std::set<std::uint32_t> to_be_seeded(bool all) const;
  void log_seeders(std::uint32_t worker, const Offer& offer, const std::set<std::uint32_t>& servers,
                   Turn& turn) const;
  void forget(Turn& turn);
  void take_over();
  void go_on_counting(const RunHistory& history);
  void maybe_run(Turn& turn);
  void serve_parked(Turn& turn);
  void serve(std::uint32_t worker, Turn& turn);
  void save(Turn& turn);
  void go_on_saving(Turn& turn);
  bool save_last(Turn& turn);
  void start_checkpoint(Turn& turn);
  void end(Turn& turn);
  void start_gathering(Turn& turn, std::optional<std::uint32_t> joined = {});
  RunView run_view() const;
  Progress take_progress(Turn& turn);
  void send(Turn& turn, PeerId to, MessageType type, std::uint64_t clock, std::uint32_t key = 0,
            std::uint8_t flags = 0, Bytes payload = {}) const;

  const Settings settings_;
  Leases leases_;
  JointCheckpoints checkpoints_;
  Seeding seeding_;
  BoundedWait patience_;
  Phase phase_ = Phase::gathering;
  Generation generation_;

  std::set<std::uint32_t> connected_;      // the workers that are connected
  std::map<std::uint32_t, Offer> offers_;  // the offers of workers that joined
  std::set<std::uint32_t> parked_;         // workers that wait for work
  std::map<std::uint32_t, bool> servers_;  // the other servers that are up, and whether each has weights
  bool has_weights_ = false;
  std::set<std::uint32_t> holders_;  // the servers that hold chunks of the model
  std::optional<SteadyTime> enough_since_;
  std::optional<Failure> unwritable_;
  std::optional<DataSummary> data_;  // the data of the worker that joined last
  bool loading_ = false;             // this server has asked for the newest checkpoint
  SteadyTime next_wait_;

  bool save_due_ = false;
  SteadyTime saving_since_, next_try_;
  std::optional<std::uint64_t> tried_step_;  // the step of the newest checkpoint that was begun since save()
  std::uint64_t restored_step_ = 0;
  bool stopping_ = false;
  std::uint64_t stopping_step_ = 0;
  SteadyTime stopping_since_;

  Progress progress_;  // without `run`, which take_progress() fills in
  std::uint64_t restarts_ = 0;
  Pace pace_;
  std::optional<std::uint32_t> reporter_told_;
  Bytes result_;
};

}  // namespace mlk::rt
