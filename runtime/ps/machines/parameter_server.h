// The part of the model that one server holds: chunks of weights with the optimizer's state and clocks. Does
// no networking.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/floats.h"
#include "runtime/model/optimizer.h"
#include "runtime/ps/machines/protocol.h"

namespace mlk::rt {

// Each chunk has a clock: the number of updates applied to it. Not for two threads at once.
class ParameterShard {
 public:
  // chunks: all chunks of the model; this shard holds those of `server`. slices (sync): the number of slices
  // of a step.
  ParameterShard(std::span<const Chunk> chunks, std::uint32_t server, const Optimizer& optimizer,
                 std::uint32_t slices, kernels::Ops& ops);

  // Returns false if this shard does not hold the chunk, or if the sizes are wrong. state: the state of the
  // optimizer, slot by slot; empty if it was lost: then it starts again at zero.
  bool seed(std::uint32_t chunk, std::uint64_t clock, std::span<const float> weights,
            std::span<const float> state);
  const Optimizer& optimizer() const { return optimizer_; }
  bool complete() const { return seeded_ == parts_.size(); }  // every chunk was seeded
  void forget();                                              // goes back to the state before the first seed

  enum class Outcome {
    accepted,  // counted now, or counted before
    advanced,  // counted, and the chunk has new weights
    ahead,     // the sender is ahead of this chunk, or the chunk has no weights
    unknown,   // this shard does not hold the chunk, or the push is invalid
  };
  // sync: `gradient` is the mean gradient of a slice of `samples` samples. The update uses the mean over the
  // samples of all slices.
  Outcome push_slice(std::uint32_t chunk, std::uint64_t clock, std::uint32_t slice,
                     std::span<const float> gradient, std::uint32_t samples);

  // async: the shard applies the gradient at once, with the step size divided by 1 + staleness. It applies
  // only one gradient for each worker, incarnation and clock. base: the clock of the weights with which the
  // gradient was computed.
  struct Origin {
    std::uint32_t worker = 0;
    std::uint64_t incarnation = 0, clock = 0;
  };
  Outcome push_update(std::uint32_t chunk, const Origin& origin, std::uint64_t base,
                      std::span<const float> gradient);

  struct View {
    std::uint64_t clock = 0;
    std::span<const float> weights, state;  // state: the optimizer's, slot by slot
  };
  std::optional<View> view(std::uint32_t chunk) const;
  // sync: the weights at that clock, which must be the chunk's clock or the one before.
  std::optional<std::span<const float>> weights_at(std::uint32_t chunk, std::uint64_t clock) const;

 private:
  struct Part {
    std::uint64_t clock = 0, state_since = 0;  // state_since: the clock at which the state was zeros
    bool seeded = false;
    kernels::Floats weights, state, previous, sum;
    std::vector<bool> seen;
    std::uint64_t samples = 0;
    std::map<std::uint32_t, Origin> last;  // per worker
  };
  Part* find(std::uint32_t chunk, std::size_t size);
  void update(Part& part, std::span<const float> gradient, std::uint64_t staleness);

  Optimizer optimizer_;
  std::uint32_t slices_;
  kernels::Ops& ops_;
  std::map<std::uint32_t, Part> parts_;
  std::map<std::uint32_t, std::size_t> sizes_;
  std::size_t seeded_ = 0;
};

// The model as this server knows it once the first worker has joined.
struct ServedModel {
  std::vector<TensorInfo> tensors;
  std::vector<Chunk> chunks;
  std::unique_ptr<ParameterShard> shard;  // null until then
  std::uint64_t seed_round = 0;           // the round whose seeds are accepted (seeding.h); 0: none
  std::uint64_t seeded_round = 0;         // the round in which the shard was completed

  void open_seeding(std::uint64_t round) {  // 0: forgets the weights and accepts no seeds
    shard->forget();
    seed_round = round;
  }
};

}  // namespace mlk::rt
