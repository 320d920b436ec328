// A member of a group of devices that add up numbers by NCCL: see kernels/communicator.h for the contract.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/nccl.h"

struct mlk_communicator {
 public:
  // device_stream: a sum begins after the operations that this stream has when sum() is called. The stream
  // must outlive this object.
  mlk_communicator(int device, cudaStream_t device_stream, const ncclUniqueId& id, int members, int index);
  ~mlk_communicator();
  mlk_communicator(const mlk_communicator&) = delete;
  mlk_communicator& operator=(const mlk_communicator&) = delete;

  void sum(float* numbers, std::size_t count);
  int state();
  std::size_t sums_done() const { return done_; }
  void traffic(double& bytes, double& seconds);
  const char* failure();
  bool abort();

 private:
  // The objects that NCCL may still use in a call that does not return.
  struct Native {
    std::mutex calls;  // one call of NCCL at a time
    ncclComm_t communicator = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t before = nullptr;     // the end of the operations before a sum
    std::vector<cudaEvent_t> events;  // all events before and after sums

    void end();
  };

  bool holds(ncclResult_t result, const char* doing);
  bool holds(cudaError_t error, const char* doing);
  void fail(std::string why);
  // A sum in progress, between two events of its stream.
  struct Sum {
    cudaEvent_t begin = nullptr, end = nullptr;
    std::size_t bytes = 0;
  };
  bool prepare(Sum& sum);
  bool begin_sum(float* numbers, std::size_t count, cudaEvent_t begin);

  const cudaStream_t device_stream_;
  const std::shared_ptr<Native> native_ = std::make_shared<Native>();
  std::deque<Sum> under_way_;
  std::vector<Sum> unused_;         // their events are also in native_->events
  double bytes_ = 0, seconds_ = 0;  // of the sums that are done
  std::atomic<std::size_t> done_ = 0;
  std::atomic<bool> aborted_ = false;
  std::atomic<bool> ended_ = false;  // the abort has returned
  std::mutex text_;
  std::string failure_;
};
