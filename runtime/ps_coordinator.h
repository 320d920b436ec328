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

#include "runtime/checkpoint.h"
#include "runtime/leases.h"
#include "runtime/membership.h"
#include "runtime/parameter_server.h"
#include "runtime/peers.h"
#include "runtime/ps_protocol.h"

namespace mlk::rt {

// The model as this server knows it, from the first worker that joins.
struct ServedModel {
  std::vector<TensorInfo> tensors;
  std::vector<Chunk> chunks;
  std::unique_ptr<ParameterShard> shard;  // null until then
};

class Coordinator {
 public:
  // All outlive the coordinator.
  Coordinator(Job& job, Peers& peers, ServedModel& model);

  void worker_up(PeerId worker);
  void peer_down(PeerId peer);
  void worker_joined(PeerId worker, std::uint64_t incarnation, const JoinMessage& join);
  void server_joined(std::uint32_t server, bool empty);
  // sync: a worker asks that server (0: this one) for weights of `clock`, which it has left behind.
  void server_ahead(std::uint32_t server, std::uint64_t clock);
  void server_seeded(std::uint32_t server);
  void worker_ready(PeerId worker, const ReadyMessage& ready);
  void state_arrived(const Header& header, std::span<const float> values);
  void worker_reported(std::span<const std::byte> result);

  // Moves on what waits for time: call at least every 100 ms.
  void tick();
  void stop();  // SIGTERM: finish the step, save

  bool finished() const { return phase_ == Phase::finished; }
  bool terminated() const { return phase_ == Phase::terminated; }
  bool all_told() const { return told_.size() >= static_cast<std::size_t>(job_.config.workers.count); }
  std::uint64_t step() const { return leases_.step(); }
  const Bytes& result() const { return result_; }  // of the trained run, as its reporter sent it

 private:
  enum class Phase { gathering, seeding, running, saving, ending, finished, terminated };
  struct Offer {
    std::uint64_t clock = 0, position = 0;
  };

  void gather();
  std::vector<std::string> missing() const;
  void decide();
  void seed_from_checkpoint();
  void seed_from_worker(std::uint32_t worker, const Offer& offer);
  void maybe_run();
  void serve_parked();
  bool serve(std::uint32_t worker);
  void save();
  void saved();
  void end();
  void start_gathering();
  bool is_reporter(std::uint32_t worker) const;
  void send(PeerId to, MessageType type, std::span<const std::byte> payload = {}, std::uint64_t clock = 0,
            std::uint32_t key = 0, std::uint8_t flags = 0);

  Job& job_;
  Peers& peers_;
  ServedModel& model_;
  Leases leases_;
  CheckpointStore store_;
  Patience patience_;
  Phase phase_ = Phase::gathering;
  Generation generation_;

  std::set<std::uint32_t> connected_;      // workers
  std::map<std::uint32_t, Offer> offers_;  // of workers that joined
  std::set<std::uint32_t> parked_;         // workers that wait for work
  std::map<std::uint32_t, bool> servers_;  // the others that are up: whether they have weights
  std::set<std::uint32_t> seeding_;        // servers whose weights are on their way
  std::optional<SteadyTime> enough_since_;
  SteadyTime next_wait_, seeding_since_;

  TrainingState gathered_;  // of the checkpoint being made
  std::set<std::uint32_t> outstanding_chunks_;
  SteadyTime saving_since_;
  std::uint64_t saved_step_ = 0, restored_step_ = 0;
  bool checkpoint_looked_for_ = false;
  bool stopping_ = false;
  std::uint64_t stopping_step_ = 0;
  SteadyTime stopping_since_;

  double loss_sum_ = 0;
  std::uint64_t loss_count_ = 0;
  std::optional<std::uint32_t> reporter_told_;
  Bytes result_;
  std::set<std::uint32_t> told_;  // workers that know that the run is trained
};

}  // namespace mlk::rt
