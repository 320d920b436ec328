// A worker's record of its gradients under way and of arriving weights, chunk by chunk.
//
// sync: weights of the next step gather in a separate buffer while the current step is under way, and are
// copied to the model when all have arrived. async: weights are received into the model itself.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "runtime/ps/machines/protocol.h"
#include "runtime/ps/machines/worker_turn.h"

namespace mlk::rt {

// Pure: exchange.h moves the floats.
class WeightBook {
 public:
  // last_step: the last step of the run.
  WeightBook(std::vector<Chunk> chunks, bool sync, std::uint64_t last_step)
      : chunks_(std::move(chunks)), sync_(sync), last_step_(last_step), version_(chunks_.size(), 0) {}

  // Sends a message to a server. The generation of the message is the last one given to in_generation().
  void send(std::uint32_t server, Header header, WorkerTurn& turn, Bytes payload = {}) const;
  void in_generation(std::uint64_t number) { generation_ = number; }

  // Pushes the model's gradients. sync: they are of a slice of `samples` samples, computed with weights of
  // `clock`.
  void push(std::uint64_t clock, std::uint32_t slice, std::uint32_t samples, WorkerTurn& turn);
  void accepted(std::uint32_t chunk) { unanswered_.erase(chunk); }
  void on_weights(const Event& event, WorkerTurn& turn);
  // Whether the servers have answered all chunks of the last push or pull_newest().
  bool answered() const { return unanswered_.empty(); }

  void pull_newest(WorkerTurn& turn);  // async
  // Asks for the weights of all chunks, or only of those chunks whose weights are not of that clock.
  void pull(std::uint64_t clock, bool all, WorkerTurn& turn);
  bool has_next(std::uint64_t clock) const;   // all chunks have weights of this clock
  bool is_beyond(std::uint64_t clock) const;  // some chunk has weights of a later clock

  // Abandons pending pushes and pulls. Returns the step to which the model moves, if all chunks have weights
  // of a step after `clock`.
  std::optional<std::uint64_t> abandon_pending(std::uint64_t clock, WorkerTurn& turn);

  // Sends the model's weights, which are of `clock`, to a server as seeds of the round (seeding.h).
  void seed(std::uint32_t server, std::uint64_t clock, std::uint64_t round, WorkerTurn& turn) const;

 private:
  const std::vector<Chunk> chunks_;
  const bool sync_;
  const std::uint64_t last_step_;
  std::uint64_t generation_ = 0;
  std::uint64_t pushes_ = 0;            // async: the number of the last push or pull
  std::set<std::uint32_t> unanswered_;  // chunks
  std::uint64_t awaited_ = 0;           // sync: the clock of the weights that gather in the separate buffer
  bool pulled_ = false;                 // sync: the worker has asked for weights of exactly this clock
  // The version of each chunk: in the model (async), or in the separate buffer (sync).
  std::vector<std::uint64_t> version_;
};

}  // namespace mlk::rt
