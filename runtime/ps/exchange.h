// Moves the floats of a worker as WeightBook (weight_tracker.h) decides: the gradients that the worker sends,
// and the weights that it receives.
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
  // All arguments must outlive this object. The destructor takes back the buffers that were posted for
  // weights, since they may be members of this object.
  WeightExchange(const Job& job, Peers& peers, Model& model);

  void expect(const ExpectWeights& wanted);
  void cancel();
  // Returns a function for the next slice: it begins to copy gradients to the host as soon as they are final.
  // The function is empty if copying ahead saves no time: if this worker has no GPU, if gradients are clipped
  // first, or if the model is so small that the device can replay a recording instead.
  Model::Final copies_ahead();
  void send(const SendChunk& wanted);
  void store(const StoreWeights& wanted, std::span<const std::byte> weights);
  void use_next();
  // async: weights arrive in the place of the parameters (Ops::place). The caller calls this before it uses
  // the model, so that the model gets the weights that have arrived.
  void use_newest();

 private:
  std::span<float> target();

  Peers& peers_;
  Model& model_;
  const bool sync_, copies_ahead_;
  const std::vector<Chunk> chunks_;
  bool newest_expected_ = false;               // async: new weights may have come since use_newest()
  kernels::Buffer<float> next_;                // sync: weights of the next step, on the host
  PostedReceivesGuard posted_receives_guard_;  // last: takes posted buffers back before `next_` is freed
};

}  // namespace mlk::rt
