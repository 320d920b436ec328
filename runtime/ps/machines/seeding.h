// Servers without weights get weights from a checkpoint, or from the worker with the highest step.
//
// Server 0 opens one round of seeding after the other. When server 0 opens a round at a server, that server
// forgets its weights, answers, and from then on accepts only seeds of that round. Seeds of an earlier round
// may still be under way, for example from a worker that was stopped for a while. They are never mixed with
// seeds of a later round.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "runtime/ps/machines/turn.h"

namespace mlk::rt {

// Used by server 0. Pure.
class Seeding {
 public:
  // round: the number before the first round. Two processes of server 0 must start at different numbers, so
  // that their rounds are never confused. slots: how many floats the optimizer's state has for each weight.
  Seeding(std::uint64_t round, std::size_t slots) : slots_(slots), round_(round) {}

  // The chunks of the model: their sizes determine how long a round may take.
  void model_is(std::span<const Chunk> chunks);

  // Opens a round at these servers, which may include server 0. Abandons an earlier round.
  void open(std::set<std::uint32_t> servers, Turn& turn);
  // After open(), the caller calls one of these two functions. Before from_checkpoint(), it must have checked
  // that the optimizer's state of the checkpoint fits.
  void from_checkpoint(Turn& turn);
  void from_worker(std::uint32_t worker, Turn& turn);
  // Abandons the open round. Returns the servers that forgot their weights for this round. They count as
  // empty.
  std::set<std::uint32_t> give_up(Turn& turn);

  void opened(std::uint32_t server, std::uint64_t round, Turn& turn);  // the server has opened the round
  // The server has reported that it has the weights of the round. Returns true if the open round still waited
  // for this report.
  bool seeded(std::uint32_t server, std::uint64_t round);
  // This server has all weights of its own part, from seeds or from the checkpoint.
  void own_seeded() { open_.erase(0); }

  bool done() const { return open_.empty(); }
  bool contains(std::uint32_t server) const { return open_.contains(server); }
  // True if the round was abandoned. A server with weights of that round may be at another step than the
  // other servers.
  bool broke_off(std::uint64_t round) const { return broken_off_.contains(round); }
  bool by(std::uint32_t worker) const { return !done() && worker_ == worker; }
  bool overdue(SteadyTime now) const { return now > until_; }

 private:
  void be_patient(SteadyTime now);
  void send_wanted(PeerId to, std::uint32_t server, Turn& turn) const;

  const std::size_t slots_;
  std::map<std::uint32_t, std::size_t> floats_;  // the number of the model's floats that each server holds
  std::uint64_t round_;
  std::set<std::uint32_t> of_round_, open_;  // all servers of the round; those still without weights
  std::optional<std::uint32_t> worker_;      // the worker that has the weights
  std::set<std::uint64_t> broken_off_;       // rounds
  SteadyTime until_;
};

}  // namespace mlk::rt
