// What the members of a generation add up in each step: a few floats in front, then the gradients. By their
// hosts (ring.h), or by their devices where these can (device_sum.h).
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
  // front: floats before the gradients. All arguments must outlive this object.
  StepSum(Transport& transport, kernels::Ops& ops, std::span<const TensorInfo> tensors, std::size_t front,
          const Log& log);

  // A generation begins, with this process as the index-th of its members.
  void begin(std::size_t members, std::size_t index) { device_sum_.begin(members, index); }

  // The floats in front, in memory of the host: the own ones before a sum, those of the sum after it.
  std::span<float> front() { return summed_.first(front_); }

  // What the step of this member consists of.
  struct Step {
    float weight = 1;                       // of its gradients in the sum
    std::span<const float> gradients = {};  // all of the model
    // Fills gradients and front(). Tells the first it is given from which of them on they are final.
    std::function<void(const Model::Final&)> compute = {};
    // Gets and handles events, as Ring::Pump.
    Ring::Pump pump = {};
    // Asked from time to time while the devices' sum stands still: it does not come to an end.
    std::function<bool()> hangs = {};
  };
  // Each bucket is added up as soon as its gradients are final, while those of the layers before are
  // computed. False: given up, and front() is spoilt. Throws what compute and pump throw.
  bool run(const Ring::Group& group, const Step& step);
  // gradients = factor * the sum.
  void take(float factor, std::span<float> gradients);

  // See DeviceSum.
  BusTraffic take_traffic() { return device_sum_.take_traffic(); }

  // Of ranks that are ahead, or gone: see Ring.
  void keep(Event&& event) { ring_.keep(std::move(event)); }
  void forget_from(std::uint32_t rank) { ring_.forget_from(rank); }

 private:
  // Of sum_, without what is in front of them.
  std::span<float> gradients_of(const Bucket& bucket);
  void weigh(const Step& step);  // the next bucket
  void make_ready();             // the next one of those, for the thread that sums
  void compute(const Step& step);
  bool sum_by_hosts(const Ring::Group& group, const Step& step);
  bool sum_by_devices(const Step& step);
  bool give_up_devices(bool hangs);
  void renew_buffer();

  Transport& transport_;
  kernels::Ops& ops_;
  const std::size_t front_, talk_end_;  // floats: of the caller; with what the members say of their devices
  const std::vector<Bucket> buckets_;
  Ring ring_;
  DeviceSum device_sum_;
  kernels::Buffer<float> sum_;
  std::span<float> summed_;             // sum_ in memory of the host
  bool by_devices_ = false;             // the sum that is under way, or was the last
  bool spoilt_ = false;                 // the device may still write to sum_
  std::size_t weighed_ = 0;             // buckets of the step
  std::atomic<std::size_t> ready_ = 0;  // and of those: for the thread that sums
  std::atomic<bool> failed_ = false;    // compute()
  kernels::ThreadPool overlap_{2};
};

}  // namespace mlk::rt
