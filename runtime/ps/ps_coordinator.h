// Server 0 as the coordinator of a run with parameter servers: who takes part, who works on what, when to
// start, to save and to end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/membership/membership.h"
#include "runtime/membership/peers.h"
#include "runtime/metrics/pace.h"
#include "runtime/ps/leases.h"
#include "runtime/ps/parameter_server.h"
#include "runtime/ps/ps_checkpoint.h"
#include "runtime/ps/ps_protocol.h"
#include "runtime/ps/ps_seeding.h"

namespace mlk::rt {

class Coordinator {
 public:
  // All outlive the coordinator. own_part: of this server in checkpoints.
  // trained: the last checkpoint is there.
  Coordinator(Job& job, Peers& peers, ServedModel& model, ShardCheckpoint& own_part, bool trained);

  void worker_up(PeerId worker);
  void peer_down(PeerId peer);
  // It has lost another server, and takes no part until it has it back.
  void worker_cut_off(PeerId worker);
  void worker_joined(PeerId worker, std::uint64_t incarnation, const JoinMessage& join);
  // round: in which it got its weights, if it has any. mark: what the server left in its folder for
  // checkpoints, or empty.
  void server_joined(std::uint32_t server, bool empty, std::uint64_t round, const std::string& mark);
  // sync: a worker asks that server (0: this one) for weights of `clock`, which it has left behind.
  void server_ahead(std::uint32_t server, std::uint64_t clock);
  void seeding_opened(std::uint32_t server, std::uint64_t round) { seeding_.opened(server, round); }
  void server_seeded(std::uint32_t server, std::uint64_t round);
  void own_seeded();  // this server's part has come
  void worker_ready(PeerId worker, const ReadyMessage& ready);
  // async: a gradient was applied that had missed so many updates.
  void applied(std::uint64_t staleness);
  void captured(std::uint32_t server, std::uint64_t step);
  void written(std::uint32_t server, const WrittenMessage& written);
  void worker_reported(std::span<const std::byte> result);

  // Moves on what waits for time or a disk: call at least every 100 ms, or more often while saving().
  void tick();
  void stop();  // SIGTERM: finish the step, save

  bool gathering() const { return phase_ == Phase::gathering; }
  bool finished() const { return phase_ == Phase::finished; }
  bool saving() const { return phase_ == Phase::saving; }
  bool terminated() const { return phase_ == Phase::terminated; }
  std::uint64_t step() const { return leases_.step(); }
  std::uint64_t committed() const { return checkpoints_.committed(); }  // newest step with a checkpoint, or 0
  const Bytes& result() const { return result_; }  // of the trained run, as its reporter sent it

 private:
  enum class Phase { gathering, seeding, running, saving, ending, finished, terminated };
  struct Offer {
    std::uint64_t clock = 0, position = 0, offline = 0;
    std::uint64_t restarts = 0, lost_samples = 0;  // that the worker has heard of
  };

  void gather();
  std::vector<std::string> missing() const;
  void decide();
  std::set<std::uint32_t> to_be_seeded(bool all) const;
  void say_who_seeds(std::uint32_t worker, const Offer& offer, const std::set<std::uint32_t>& servers);
  std::optional<TrainingState> restore(bool workers_know);
  void take_over();
  void go_on_counting(const RunHistory& history);
  void maybe_run();
  void serve_parked();
  bool serve(std::uint32_t worker);
  void save();
  void go_on_saving();
  bool save_last();
  void start_checkpoint();
  void end();
  void start_gathering(std::optional<std::uint32_t> joined = {});
  bool is_reporter(std::uint32_t worker) const;
  RunView run_view() const;
  Progress take_progress();
  void send(PeerId to, MessageType type, std::span<const std::byte> payload = {}, std::uint64_t clock = 0,
            std::uint32_t key = 0, std::uint8_t flags = 0);

  Job& job_;
  Peers& peers_;
  ServedModel& model_;
  const bool trained_;
  Leases leases_;
  JointCheckpoints checkpoints_;
  Seeding seeding_;
  Patience patience_;
  Phase phase_ = Phase::gathering;
  Generation generation_;

  std::set<std::uint32_t> connected_;      // workers
  std::map<std::uint32_t, Offer> offers_;  // of workers that joined
  std::set<std::uint32_t> parked_;         // workers that wait for work
  std::map<std::uint32_t, bool> servers_;  // the others that are up: whether they have weights
  std::optional<SteadyTime> enough_since_;
  SteadyTime next_wait_;

  bool save_due_ = false;
  SteadyTime saving_since_, next_try_;
  std::optional<std::uint64_t> tried_step_;  // of the last checkpoint, in this phase
  std::uint64_t restored_step_ = 0;
  bool stopping_ = false;
  std::uint64_t stopping_step_ = 0;
  SteadyTime stopping_since_;

  Progress progress_;  // but for its view of the run
  std::uint64_t restarts_ = 0;
  Pace pace_;
  std::optional<std::uint32_t> reporter_told_;
  Bytes result_;
};

}  // namespace mlk::rt
