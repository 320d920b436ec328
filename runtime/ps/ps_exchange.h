// The floats of what a worker's book (ps_weight_book.h) says: gradients that it sends, weights that it
// receives.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/launch/job.h"
#include "runtime/membership/peers.h"
#include "runtime/model/model.h"
#include "runtime/ps/ps_protocol.h"
#include "runtime/ps/ps_worker_turn.h"

namespace mlk::rt {

// Not for two threads at once.
class WeightExchange {
 public:
  // All outlive it. Its members are buffers of posted receives, which its end takes back.
  WeightExchange(const Job& job, Peers& peers, Model& model);

  void expect(const ExpectWeights& wanted);
  void cancel();
  void send(const SendChunk& wanted);
  void store(const StoreWeights& wanted, std::span<const std::byte> weights);
  void take_next();
  // async: weights come to the place of the parameters (Ops::place). Call it before the model is used: what
  // has come becomes the model's.
  void take_newest();

 private:
  std::span<float> target();

  Peers& peers_;
  Model& model_;
  const bool sync_;
  const std::vector<Chunk> chunks_;
  bool newest_expected_ = false;               // async: since the last take_newest()
  std::vector<float> next_;                    // sync: weights of the clock to come
  PostedReceivesGuard posted_receives_guard_;  // last: the members above are posted
};

}  // namespace mlk::rt
