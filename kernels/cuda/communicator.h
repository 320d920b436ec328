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
  // device_stream: what is in it so far comes before a sum. It must outlive this object.
  mlk_communicator(int device, cudaStream_t device_stream, const ncclUniqueId& id, int members, int index);
  ~mlk_communicator();
  mlk_communicator(const mlk_communicator&) = delete;
  mlk_communicator& operator=(const mlk_communicator&) = delete;

  void sum(float* numbers, std::size_t count);
  int state();
  std::size_t sums_done() const { return done_; }
  const char* failure();
  bool abort();

 private:
  // What a call that does not come back may still use.
  struct Native {
    std::mutex calls;  // one call of NCCL at a time
    ncclComm_t communicator = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t before = nullptr;     // what the device had to do before a sum
    std::vector<cudaEvent_t> events;  // all those after a sum

    void end();
  };

  bool holds(ncclResult_t result, const char* doing);
  bool holds(cudaError_t error, const char* doing);
  void fail(std::string why);
  bool is_failed();
  bool begin_sum(float* numbers, std::size_t count);
  bool note_end_of_sum();

  const cudaStream_t device_stream_;
  const std::shared_ptr<Native> native_ = std::make_shared<Native>();
  std::deque<cudaEvent_t> under_way_;
  std::vector<cudaEvent_t> unused_;  // of native_->events
  std::atomic<std::size_t> done_ = 0;
  std::atomic<bool> aborted_ = false;
  std::atomic<bool> ended_ = false;  // the abort has come back
  std::mutex text_;
  std::string failure_;
};
