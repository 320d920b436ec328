// What a worker makes of the time while a parameter server is lost.
//
// It goes on with the run as if it were the only one left: the next steps, of the run's next samples, with an
// optimizer of its own that starts at zero. So the model and its step stay what they are in a run that lost
// all other workers, and the worker that has come furthest can seed the servers, by the rule that holds
// without such steps, too. The models of several workers are not averaged: that would need all of them to be
// back, and a count of steps and samples that fits none of them.
#pragma once

#include <cstdint>

#include "kernels/buffer.h"
#include "runtime/launch/job.h"
#include "runtime/train/trainer.h"

namespace mlk::rt {

// sync: a step takes all slices that it has with all workers, here one after the other. async: a step is one
// update. Its step size is reduced as for the usual staleness (workers - 1), since the learning rate was
// chosen for that. For one thread.
class OfflineSteps {
 public:
  // Both outlive this.
  OfflineSteps(const Job& job, Trainer& trainer);

  // Takes the next slice of the step that the model is at; with the last one the model is a step further, and
  // so are `step` and `position`: true. Costs the time of one slice. Throws as Trainer::compute().
  bool advance(std::uint64_t& step, std::uint64_t& position);

  // Forgets the slices of a step that is not complete.
  void abandon_step();

  // The servers' weights have come: the steps made here are in them, or void.
  void forget();

  std::uint64_t made() const { return made_; }  // since forget()

 private:
  const Job& job_;
  Trainer& trainer_;
  const std::uint64_t slices_;
  std::uint64_t slice_ = 0, made_ = 0;
  kernels::Buffer<float> sum_, state_;  // gradients of the slices so far; of the optimizer
};

}  // namespace mlk::rt
