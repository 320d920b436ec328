// What the emulated streams guarantee, and what they do not.
#include <cstring>
#include <mlk_cuda_emulator.h>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cuda/streams");

namespace {

struct Pinned {
  explicit Pinned(std::size_t count) : size(count) {
    REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&values), count * sizeof(float)) == cudaSuccess);
  }
  ~Pinned() { cudaFreeHost(values); }
  float* values = nullptr;
  std::size_t size;
};

struct OnDevice {
  explicit OnDevice(std::size_t count) {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&values), count * sizeof(float)) == cudaSuccess);
  }
  ~OnDevice() { cudaFree(values); }
  float* values = nullptr;
};

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  return stream;
}

}  // namespace

TEST_CASE(
    "the emulator copies pinned memory at the wait, and other memory at the call of cudaMemcpyAsync()") {
  Pinned host(1);
  OnDevice device(1);
  const cudaStream_t stream = new_stream();
  *host.values = 1;
  cudaMemcpyAsync(device.values, host.values, sizeof(float), cudaMemcpyHostToDevice, stream);
  *host.values = 2;  // too early
  cudaStreamSynchronize(stream);
  CHECK(*device.values == 2);
  float pageable = 3;
  cudaMemcpyAsync(device.values, &pageable, sizeof(float), cudaMemcpyHostToDevice, stream);
  pageable = 4;
  cudaStreamSynchronize(stream);
  CHECK(*device.values == 3);
  cudaStreamDestroy(stream);
}

TEST_CASE("an event fixes the order of operations in two streams, and without it they may run in any order") {
  bool too_early = false;
  for (const bool waits : {false, true}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      mlk::emulator::use_stream_seed(seed);
      const cudaStream_t first = new_stream(), second = new_stream();
      cudaEvent_t event = nullptr;
      cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
      int made = 0, seen = 0;
      mlk::emulator::enqueue(first, [&] { made = 1; });
      cudaEventRecord(event, first);
      if (waits) cudaStreamWaitEvent(second, event, 0);
      mlk::emulator::enqueue(second, [&] { seen = made; });
      cudaStreamSynchronize(second);
      cudaStreamSynchronize(first);
      if (waits) CHECK(seen == 1);
      if (!waits && seen == 0) too_early = true;
      cudaEventDestroy(event);
      cudaStreamDestroy(first);
      cudaStreamDestroy(second);
    }
  }
  CHECK(too_early);
}

TEST_CASE("cudaGraphLaunch() runs the operations of a captured stream, and a wait during the capture fails") {
  const cudaStream_t stream = new_stream();
  int runs = 0;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  mlk::emulator::enqueue(stream, [&] { ++runs; });
  CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  for (int i = 0; i < 3; ++i) cudaGraphLaunch(executable, stream);
  CHECK(runs == 0);
  cudaStreamSynchronize(stream);
  CHECK(runs == 3);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_CASE(
    "cudaMalloc() refuses too many bytes, and cudaMemcpyAsync() refuses too many bytes or a wrong "
    "direction") {
  float host[2] = {};
  OnDevice device(1);
  CHECK(cudaMemcpyAsync(host, device.values, sizeof(float), cudaMemcpyHostToDevice, nullptr) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(device.values, host, 2 * sizeof(float), cudaMemcpyHostToDevice, nullptr) ==
        cudaErrorInvalidValue);
  mlk::emulator::use_device_memory(1000);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 2000) == cudaErrorMemoryAllocation);
  mlk::emulator::use_device_memory(std::size_t{4} << 30);
}
