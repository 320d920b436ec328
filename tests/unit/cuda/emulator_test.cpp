// The faults that the emulator finds in wrong kernels.
#include <cmath>
#include <mlk_cuda_emulator.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/cuda/faults.h"

TEST_SUITE_BEGIN("cuda/emulator");

using namespace mlk::emulator;
using mlk::test::contains;
using mlk::test::fault_of;

namespace {

// Reverses the numbers of each block.
void reverse(const float* in, float* out, bool waits) {
  auto* const shared = static_cast<float*>(shared_memory());
  const unsigned first = blockIdx.x * blockDim.x;
  shared[threadIdx.x] = in[first + threadIdx.x];
  if (waits) __syncthreads();
  out[first + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

}  // namespace

TEST_CASE(
    "after a barrier, a thread reads what other threads of the block wrote; without the barrier, it reads "
    "NaN") {
  std::vector<float> in(128), out(128);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  const Launch launch{{2}, {64}, 64 * sizeof(float)};
  run_grid(launch, [&] { reverse(in.data(), out.data(), true); });
  CHECK(out[0] == 63);
  CHECK(out[127] == 64);
#ifndef __SANITIZE_THREAD__
  run_grid(launch, [&] { reverse(in.data(), out.data(), false); });
  CHECK(std::isnan(out[64]));  // the second block does not see the shared memory of the first
#endif
}

TEST_CASE("the emulator reports a fault if a grid has more blocks along y or z than devices allow") {
  CHECK(fault_of({{0, 65535}, {1}}, [] {}).empty());  // no blocks along x: nothing runs
  for (const Extent& blocks : {Extent{1, 65536}, Extent{1, 1, 65536}})
    CHECK(contains(fault_of({blocks, {1}}, [] {}), "65536 blocks along y or z, and devices take 65535"));
}

TEST_CASE("the emulator reports a fault if threads of a block wait at different barriers") {
  const std::string fault = fault_of({{1}, {32}}, [] {
    if (threadIdx.x < 3) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  });
  CHECK(contains(fault, "thread (3,0,0): waits at a barrier, and a thread of its block at another"));
}

TEST_CASE("the emulator reports a fault if the first or the last thread of a block leaves before a barrier") {
  CHECK(contains(fault_of({{1}, {32}},
                          [] {
                            if (threadIdx.x == 0) return;
                            __syncthreads();
                          }),
                 "a thread of its block has left the kernel"));
  CHECK(contains(fault_of({{1}, {32}},
                          [] {
                            if (threadIdx.x == 31) return;
                            __syncthreads();
                          }),
                 "all threads wait"));
}

TEST_CASE(
    "__shfl_xor_sync() exchanges values between lanes; a lane that is missing or not in the mask causes a "
    "fault") {
  std::vector<int> sums(2);
  run_grid({{1}, {64}}, [&] {
    int value = static_cast<int>(threadIdx.x);
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffff, value, lanes);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  });
  CHECK(sums == std::vector<int>{496, 1520});
  CHECK(contains(fault_of({{1}, {16}}, [] { __shfl_xor_sync(0xffffffff, 1, 1); }), "which is not there"));
  CHECK(contains(fault_of({{1}, {32}}, [] { __shfl_sync(threadIdx.x < 16 ? 0xffffu : 0xffff0000u, 1, 20); }),
                 "reads a lane that takes no part"));
  CHECK(contains(fault_of({{1}, {32}}, [] { __syncwarp(0xfffffffe); }), "is not in the mask"));
}

TEST_CASE("a ballot gives every lane the votes of all lanes") {
  std::vector<unsigned> got(32);
  run_grid({{1}, {32}}, [&] { got[threadIdx.x] = __ballot_sync(0xffffffff, threadIdx.x % 8 == 1); });
  for (const unsigned bits : got) CHECK(bits == 0x02020202);
}

TEST_CASE("the halves of a warp may execute different branches") {
  std::vector<int> got(32);
  run_grid({{1}, {32}}, [&] {
    const int lane = static_cast<int>(threadIdx.x);
    got[threadIdx.x] = lane < 16 ? __shfl_sync(0xffff, lane, 15) : __shfl_sync(0xffff0000, lane * 2, 16);
  });
  CHECK(got[3] == 15);
  CHECK(got[31] == 32);
}

TEST_CASE("if all threads add to one number atomically, no addition is lost") {
  float sum = 0;
  unsigned count = 0;
  run_grid({{3}, {50}}, [&] {
    atomicAdd(&sum, 1.0f);
    atomicAdd(&count, 1u);
  });
  CHECK(sum == 150);
  CHECK(count == 150);
}
