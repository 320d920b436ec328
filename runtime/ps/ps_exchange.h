// What a worker sends to the servers, and what it gets of their weights, chunk by chunk.
//
// sync: the weights of the clock to come gather in a buffer of their own while the step before is under way,
// and become the model's when all are there. async: they land in the model itself.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "runtime/launch/job.h"
#include "runtime/membership/peers.h"
#include "runtime/model/model.h"
#include "runtime/ps/ps_protocol.h"

namespace mlk::rt {

// Not for two threads at once.
class WeightExchange {
 public:
  // All outlive it. What is expected lands in members: nothing does any more once it is gone.
  WeightExchange(const Job& job, Peers& peers, Mlp& model);

  // To a server, in the generation of the membership that was named last.
  void send(std::uint32_t server, Header header, std::span<const std::byte> payload = {});
  void in_generation(std::uint64_t number) { generation_ = number; }

  // The model's gradients, of a slice of so many samples (sync), taken at weights of `clock`.
  void push(std::uint64_t clock, std::uint32_t slice, std::uint32_t samples);
  void accepted(std::uint32_t chunk) { unanswered_.erase(chunk); }
  void on_weights(const Event& event);
  // Whether all chunks of the last push or pull_newest() were answered.
  bool answered() const { return unanswered_.empty(); }

  void pull_newest();  // async
  // Asks for the weights of all chunks, or of those that are not at that clock.
  void pull(std::uint64_t clock, bool all);
  bool has_next(std::uint64_t clock) const;   // of all chunks
  bool is_beyond(std::uint64_t clock) const;  // has weights of a later one, of some chunk
  void take_next();                           // has_next(): the model gets them

  // Ends what was under way. The step that the model is at now, if that is beyond `clock`.
  std::optional<std::uint64_t> settle(std::uint64_t clock);

  // Gives a server the model's weights, which are of `clock`, in that round (ps_seeding.h).
  void seed(std::uint32_t server, std::uint64_t clock, std::uint64_t round);

 private:
  void expect(std::uint64_t clock, std::span<float> into);

  Peers& peers_;
  Mlp& model_;
  const bool sync_;
  const std::uint64_t last_step_;
  const std::vector<Chunk> chunks_;
  std::uint64_t generation_ = 0;
  std::uint64_t pushes_ = 0;            // async: own count
  std::set<std::uint32_t> unanswered_;  // chunks
  std::vector<float> next_;             // sync: weights of the clock to come
  std::uint64_t awaited_ = 0;           // sync: the clock of the weights that land in next_
  bool pulled_ = false;                 // sync: those, and none of a later clock, are asked for
  std::vector<std::uint64_t> version_;  // per chunk: async: of the parameters; sync: of next_
  LandingsGuard landings_guard_;        // last: the weights land in the members above
};

}  // namespace mlk::rt
