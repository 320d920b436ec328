// Streams of a device that does nothing by itself. Its operations run when the host waits for an operation,
// in an order that only the streams and their events restrict. So a missing wait shows: an operation runs too
// early or too late. A seed determines the order among streams.
#pragma once

#include <cstdint>
#include <functional>

#include <cuda_runtime.h>

// CUDA's headers only declare this type. The fake NCCL is not linked to this emulator, so it needs a virtual
// function to put work into a stream.
struct CUstream_st {
  virtual ~CUstream_st() = default;
  // Puts an operation at the end of the stream. The operation waits there until `ready` is true, which may
  // depend on other processes. The emulator holds its lock while it calls `ready` and `run`.
  virtual void push(std::function<bool()> ready, std::function<void()> run) = 0;
};

namespace mlk::emulator {

// Puts an operation at the end of a stream; null is the default stream, which is ordered like any other
// stream. If the operation throws, the device is broken: all later calls return cudaErrorLaunchFailure, as on
// a real device.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> operation);

// Sets the seed of the order among streams. The environment variable MLK_EMULATED_SEED sets it at the start.
void use_stream_seed(std::uint64_t seed);

// Sets how much memory the device has from now on, in bytes. MLK_EMULATED_MEMORY sets the size at the start.
// With MLK_EMULATED_ECC=N the N-th operation finds a fault in the memory.
void use_device_memory(std::size_t bytes);

}  // namespace mlk::emulator
