// The floats of what a worker's book (weight_tracker.h) says: gradients that it sends, weights that it
// receives.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "runtime/launch/job.h"
#include "runtime/membership/peers.h"
#include "runtime/model/model.h"
#include "runtime/ps/machines/protocol.h"
#include "runtime/ps/machines/worker_turn.h"

namespace mlk::rt {

// Not for two threads at once.
class WeightExchange {
 public:
  // All outlive it. Its members are buffers of posted receives, which its end takes back.
  WeightExchange(const Job& job, Peers& peers, Model& model);

  void expect(const ExpectWeights& wanted);
  void cancel();
  // For the slice that is computed next: begins to copy gradients to the host as soon as they are final.
  // Empty where that gains nothing: on processors, for gradients that are clipped first, and for those of a
  // small model, which a device computes by replaying a recording.
  Model::Final copies_ahead();
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
  const bool sync_, copies_ahead_;
  const std::vector<Chunk> chunks_;
  bool newest_expected_ = false;               // async: since the last take_newest()
  kernels::Buffer<float> next_;                // sync: weights of the clock to come, on the host
  PostedReceivesGuard posted_receives_guard_;  // last: the members above are posted
};

}  // namespace mlk::rt
