// Asynchronous copies to the host. They copy the results of earlier operations of a stream, and run beside
// its later operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <cuda_runtime.h>

namespace mlk::cuda {

// For one thread and one device.
class EarlyCopies {
 public:
  EarlyCopies() = default;
  ~EarlyCopies();
  EarlyCopies(const EarlyCopies&) = delete;
  EarlyCopies& operator=(const EarlyCopies&) = delete;

  // Queues a copy, which begins when the stream has done the operations that are queued now. Copies run one
  // after the other, in the order of the calls. Sets `number` to the number of this copy, for wait().
  cudaError_t begin(cudaStream_t stream, const void* memory, void* values, std::size_t bytes,
                    std::uint64_t& number);
  cudaError_t wait(std::uint64_t number);

 private:
  cudaStream_t copies_ = nullptr;
  cudaEvent_t computed_ = nullptr;
  std::deque<cudaEvent_t> ends_;     // of the copies that no call has waited for, in their order
  std::vector<cudaEvent_t> unused_;  // making an event takes longer than recording it
  std::uint64_t begun_ = 0;
};

}  // namespace mlk::cuda
