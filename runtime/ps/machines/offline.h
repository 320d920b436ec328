// A worker continues to train while a parameter server is lost.
//
// The worker continues the run as if it were the only worker left: it makes the next steps, with the run's
// next samples, and with an optimizer of its own that starts at zero. So the model and its step are those of
// a run that has lost all other workers. Therefore the worker with the highest step can seed the servers, by
// the same rule as without offline steps. The models of several workers are not averaged. For an average, the
// workers would have to divide the samples among them. Then no model would have seen all samples that belong
// to its step, and only all of these workers together could seed the servers.
#pragma once

#include <cstdint>

#include "kernels/buffer.h"
#include "runtime/launch/job.h"
#include "runtime/train/trainer.h"

namespace mlk::rt {

// sync: a step takes the same slices as with all workers, here one after the other. async: a step is one
// update. Its step size is reduced for the usual staleness (workers - 1), since the learning rate was chosen
// for that staleness. For one thread.
class OfflineSteps {
 public:
  // Both arguments must outlive this object.
  OfflineSteps(const Job& job, Trainer& trainer);

  // Computes the next slice of the model's current step. After the last slice the model, `step` and
  // `position` advance by one step, and the function returns true. Takes the time of one slice. Throws what
  // Trainer::compute() throws.
  bool advance(std::uint64_t& step, std::uint64_t& position);

  // Forgets the slices of a step that is not complete.
  void abandon_step();

  // The servers' weights have arrived. Either they contain the offline steps, or these steps are void.
  void forget();

  std::uint64_t made() const { return made_; }  // steps made since forget()

 private:
  const Job& job_;
  Trainer& trainer_;
  const std::uint64_t slices_;
  std::uint64_t slice_ = 0, made_ = 0;
  kernels::Buffer<float> sum_, state_;  // sum of the gradients of the slices so far; optimizer's state
};

}  // namespace mlk::rt
