// The rounds of seeding.
#include "runtime/ps/machines/seeding.h"

#include <utility>

#include "runtime/base/code_probe.h"
#include "runtime/ps/machines/timers.h"

namespace mlk::rt {

void Seeding::model_is(std::span<const Chunk> chunks) {
  floats_.clear();
  for (const Chunk& chunk : chunks) floats_[chunk.server] += chunk.size;
}

void Seeding::open(std::set<std::uint32_t> servers, Turn& turn) {
  ++round_;
  worker_.reset();
  of_round_ = open_ = std::move(servers);
  be_patient(turn.now);
  for (const std::uint32_t server : open_) {
    if (server == 0) {
      turn.decide(OpenSeeding{round_});
    } else {
      send_wanted({Role::server, server}, server, turn);
    }
  }
}

std::set<std::uint32_t> Seeding::give_up(Turn& turn) {
  worker_.reset();
  if (std::exchange(open_, {}).empty()) return {};
  code_probe("ps.seeding-given-up");
  broken_off_.insert(round_);
  if (of_round_.contains(0)) turn.decide(OpenSeeding{0});
  return std::exchange(of_round_, {});
}

void Seeding::be_patient(SteadyTime now) {
  double floats = 0;
  for (const auto& [server, count] : floats_)
    floats += open_.contains(server) ? static_cast<double>(count) : 0;
  const double bytes = floats * sizeof(float) * static_cast<double>(1 + slots_);
  const std::chrono::duration<double> of_bytes(bytes / ps_timers::seed_bytes_per_second);
  until_ = now + std::chrono::duration_cast<SteadyTime::duration>(ps_timers::seed_patience + of_bytes);
}

// The seeds use the same connection as the message that opens the round, so they arrive after it. Therefore
// this server waits for no answer.
void Seeding::from_checkpoint(Turn& turn) {
  turn.decide(SeedFromCheckpoint{open_, round_});
  own_seeded();
  be_patient(turn.now);  // from now on, this server sends seeds to the other servers
}

void Seeding::from_worker(std::uint32_t worker, Turn& turn) {
  worker_ = worker;
  if (open_.contains(0)) send_wanted({Role::worker, worker}, 0, turn);
}

void Seeding::opened(std::uint32_t server, std::uint64_t round, Turn& turn) {
  if (round == round_ && open_.contains(server) && worker_)
    send_wanted({Role::worker, *worker_}, server, turn);
}

bool Seeding::seeded(std::uint32_t server, std::uint64_t round) {
  return round == round_ && open_.erase(server) > 0;
}

void Seeding::send_wanted(PeerId to, std::uint32_t server, Turn& turn) const {
  turn.send(to, {.type = MessageType::seed_wanted, .key = server, .clock = round_});
}

}  // namespace mlk::rt
