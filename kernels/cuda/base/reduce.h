// Sums and maxima over the threads of a warp and of a block, in an order that is always the same.
#pragma once

#include "kernels/cuda/base/cuda.h"

namespace mlk::cuda {

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

// Returns the value of the lane with the number (own number ^ lanes). A type that is not a number has its own
// function of this name.
template <typename T>
__device__ T of_lane_xor(T value, int lanes) {
  return __shfl_xor_sync(all_lanes, value, lanes);
}

// All lanes get the result.
template <typename T, typename Operation>
__device__ T reduce_warp(T value, Operation operation) {
  for (int lanes = warp_threads / 2; lanes > 0; lanes /= 2)
    value = operation(value, of_lane_xor(value, lanes));
  return value;
}

// All threads get the result. blockDim.x is a multiple of 32, at most 1024; shared: 33 numbers that only
// reduce_block uses.
template <typename T, typename Operation>
__device__ T reduce_block(T value, T neutral, Operation operation, T* shared) {
  const unsigned lane = threadIdx.x % warp_threads, warp = threadIdx.x / warp_threads;
  value = reduce_warp(value, operation);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  if (warp == 0) {
    const T total = reduce_warp(lane < blockDim.x / warp_threads ? shared[lane] : neutral, operation);
    if (lane == 0) shared[warp_threads] = total;
  }
  __syncthreads();
  return shared[warp_threads];  // the next call writes there only after its first barrier
}

}  // namespace mlk::cuda
