// Streams of a device that does nothing by itself: its operations run when the host waits for one, in an
// order that only the streams and their events bind. So an operation that lacks a wait shows: it runs too
// early or too late. The order among streams follows from a seed.
#pragma once

#include <cstdint>
#include <functional>

#include <cuda_runtime.h>

// CUDA's headers only name this type. A library that gives work to a stream finds here how, since it has not
// been linked to this emulator: the fake NCCL.
struct CUstream_st {
  virtual ~CUstream_st() = default;
  // Puts an operation at the end of the stream that waits there until `ready` holds, which other processes
  // may bring about. Both run with the lock of the emulator.
  virtual void push(std::function<bool()> ready, std::function<void()> run) = 0;
};

namespace mlk::emulator {

// Puts an operation at the end of a stream; null is the default stream, which is ordered like any other. An
// exception of the operation breaks the device: all later calls return cudaErrorLaunchFailure, as on a real
// one.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> operation);

// Of the order in which streams go on. The environment variable MLK_EMULATED_SEED sets it at the start.
void use_stream_seed(std::uint64_t seed);

// How much memory the device has from now on, in bytes. MLK_EMULATED_MEMORY sets it at the start.
// With MLK_EMULATED_ECC=N the N-th operation finds a fault in it.
void use_device_memory(std::size_t bytes);

}  // namespace mlk::emulator
