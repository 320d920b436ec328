// Work that is the same in every step, recorded as CUDA graphs, so that one call replaces hundreds.
#pragma once

#include <cstdint>
#include <map>

#include <cuda_runtime.h>

namespace mlk::cuda {

// The recordings of one stream. The work of a key only queues operations of this stream: the same
// operations each time, on the same memory. The first call runs the work, which may still allocate memory.
// The second call records the work, and later calls replay the recording. If memory was allocated after
// the recording, the work is run and recorded anew, because its operations may use other addresses now
// (Scratch, or a buffer that has grown).
class Recordings {
 public:
  explicit Recordings(cudaStream_t& stream) : stream_(stream) {}
  ~Recordings() { forget(); }
  Recordings(const Recordings&) = delete;
  Recordings& operator=(const Recordings&) = delete;

  // Calls work(context), or replays what it has queued. Work that returns false is not replayed.
  cudaError_t run(std::uint64_t key, bool (*work)(void* context), void* context);
  // Forgets all recordings. Call this while the stream exists.
  void forget();

 private:
  struct Recording {
    std::uint64_t allocations = 0;  // the value of cuda::allocations after the last run without a recording
    cudaGraphExec_t graph = nullptr;
  };

  cudaError_t record(Recording& recording, bool (*work)(void* context), void* context);

  cudaStream_t& stream_;
  std::map<std::uint64_t, Recording> recordings_;
};

}  // namespace mlk::cuda
