// What the members of a generation sum in each step: a few floats in front, then the gradients. The devices
// compute the sum if they can (device_sum.h), otherwise the hosts (ring.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "runtime/collectives/buckets.h"
#include "runtime/collectives/device_sum.h"
#include "runtime/collectives/ring.h"

namespace mlk::rt {

// For one thread at a time.
class StepSum {
 public:
  // front: the number of the caller's floats in front of the gradients. All arguments must outlive this
  // object.
  StepSum(Transport& transport, kernels::Ops& ops, std::span<const TensorInfo> tensors, std::size_t front,
          const Log& log);

  // A generation begins, with this process as the index-th of its members.
  void begin(std::size_t members, std::size_t index) { device_sum_.begin(members, index); }

  // The floats in front, in memory of the host: before a sum the values of this member, after the sum the
  // totals over all members.
  std::span<float> front() { return summed_.first(front_); }

  // What run() needs to know of a step of this member.
  struct Step {
    float weight = 1;                       // of the gradients of this member
    std::span<const float> gradients = {};  // all gradients of the model
    // Computes gradients and front(). Calls its argument with an index as soon as all gradients from that
    // index on are final.
    std::function<void(const Model::Final&)> compute = {};
    // Receives and handles events; see Ring::Pump.
    Ring::Pump pump = {};
    // Called from time to time while the sum of the devices stands still. Returns true if the sum will not
    // finish.
    std::function<bool()> hangs = {};
  };
  // Each bucket is summed as soon as its gradients are final, while the gradients of earlier layers are still
  // being computed. Returns false if the sum was abandoned; then front() is spoilt. Throws what compute and
  // pump throw.
  bool run(const Ring::Group& group, const Step& step);
  // gradients = factor * the sum.
  void scale_into(float factor, std::span<float> gradients);

  // See DeviceSum.
  BusTraffic take_traffic() { return device_sum_.take_traffic(); }

  // See Ring: store_early() is for frames of ranks that are ahead, forget_from() for ranks that are gone.
  void store_early(Event&& event) { ring_.store_early(std::move(event)); }
  void forget_from(std::uint32_t rank) { ring_.forget_from(rank); }

 private:
  // The gradients of a bucket in sum_, without the floats in front of them.
  std::span<float> gradients_of(const Bucket& bucket);
  void weigh(const Step& step);  // the gradients of the next bucket
  void make_ready();             // makes the next weighed bucket ready for the thread that sums
  void compute(const Step& step);
  bool sum_by_hosts(const Ring::Group& group, const Step& step);
  bool sum_by_devices(const Step& step);
  bool give_up_devices(bool hangs);
  void renew_buffer();

  Transport& transport_;
  kernels::Ops& ops_;
  const std::size_t front_, talk_end_;  // the end of the caller's floats; the end of those of DeviceSum
  const std::vector<Bucket> buckets_;
  Ring ring_;
  DeviceSum device_sum_;
  kernels::Buffer<float> sum_;
  std::span<float> summed_;             // sum_ in memory of the host
  bool by_devices_ = false;             // the devices compute the current sum, or made the last one
  bool spoilt_ = false;                 // the device may still write to sum_
  std::size_t weighed_ = 0;             // the number of buckets of the step that are weighed
  std::atomic<std::size_t> ready_ = 0;  // the number of weighed buckets that are ready to be summed
  std::atomic<bool> failed_ = false;    // compute() has thrown
  kernels::ThreadPool overlap_{2};
};

}  // namespace mlk::rt
