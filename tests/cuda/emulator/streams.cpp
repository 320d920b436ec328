// The part of the CUDA runtime that mlk uses, on the host. Signatures are NVIDIA's.
#include "tests/cuda/emulator/streams.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

struct CUevent_st {
  std::uint64_t recorded = 0, reached = 0;  // how many records were queued; how many are reached
  std::uint64_t reached_at = 0;             // how many operations the device had run by then
};

namespace mlk::emulator {
namespace {

struct Operation {
  std::function<void()> run;
  // The operation runs only after this event was reached `times` times.
  std::shared_ptr<CUevent_st> after = {};
  std::uint64_t times = 0;
  std::function<bool()> ready = {};  // if it is set, it has to return true as well
};

}  // namespace
}  // namespace mlk::emulator

using mlk::emulator::Operation;

struct CUgraph_st {
  std::vector<std::function<void()>> operations;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> operations;
};

namespace mlk::emulator {
namespace {

std::recursive_mutex mutex;

struct Stream final : CUstream_st {
  std::deque<Operation> operations;
  std::unique_ptr<CUgraph_st> captured;  // while the stream is captured

  void push(std::function<bool()> ready, std::function<void()> run) override {
    const std::scoped_lock lock(mutex);
    operations.push_back({.run = std::move(run), .ready = std::move(ready)});
  }
};

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

class Device {
 public:
  cudaError_t error = cudaSuccess;  // never becomes cudaSuccess again
  std::uint64_t operations_run = 0;
  const std::uint64_t memory_fails_at = from_environment("MLK_EMULATED_ECC", 0);
  bool waits_for_others = false;  // the last step() found an operation that waits for other processes
  std::size_t limit = from_environment("MLK_EMULATED_MEMORY", std::size_t{4} << 30), in_use = 0;
  std::map<const char*, std::size_t> memory, pinned;  // sizes in bytes, by address
  std::set<std::unique_ptr<Stream>> streams;
  std::map<cudaEvent_t, std::shared_ptr<CUevent_st>> events;
  Stream default_stream;
  std::mt19937_64 random{from_environment("MLK_EMULATED_SEED", 1)};

  Stream& of(cudaStream_t stream) { return stream ? static_cast<Stream&>(*stream) : default_stream; }

  // Runs one operation of any stream. False: no operation can run.
  bool step() {
    std::vector<Stream*> able;
    waits_for_others = false;
    const auto look = [&](Stream& stream) {
      if (stream.operations.empty()) return;
      const Operation& next = stream.operations.front();
      if (next.after && next.after->reached < next.times) return;
      if (!next.ready || next.ready()) return able.push_back(&stream);
      waits_for_others = true;
    };
    look(default_stream);
    for (const auto& stream : streams) look(*stream);
    if (able.empty()) return false;
    auto& operations = able[random() % able.size()]->operations;
    const Operation operation = std::move(operations.front());
    operations.pop_front();
    if (++operations_run == memory_fails_at) error = cudaErrorECCUncorrectable;
    try {
      operation.run();
    } catch (const std::exception& fault) {
      std::fprintf(stderr, "emulated device: %s\n", fault.what());
      error = cudaErrorLaunchFailure;
    }
    return true;
  }

  // Runs operations until `holds` is true. Other threads may call while only other processes can help.
  cudaError_t run_until(const std::function<bool()>& holds) {
    while (error == cudaSuccess && !holds()) {
      if (step()) continue;
      if (waits_for_others) {
        mutex.unlock();
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        mutex.lock();
        continue;
      }
      std::fprintf(stderr, "emulated device: the host waits for what never happens\n");
      error = cudaErrorLaunchTimeout;
    }
    return error;
  }

  // Whether the bytes lie within one allocation.
  static bool is_within(const std::map<const char*, std::size_t>& allocations, const void* address,
                        std::size_t bytes) {
    const auto* begin = static_cast<const char*>(address);
    auto after = allocations.upper_bound(begin);
    if (after == allocations.begin()) return false;
    const auto& [base, size] = *std::prev(after);
    return begin + bytes <= base + size;
  }
  bool is_device(const void* address, std::size_t bytes) const { return is_within(memory, address, bytes); }
  bool is_pinned(const void* address, std::size_t bytes) const { return is_within(pinned, address, bytes); }
};

Device& device() {
  static Device the_device;
  return the_device;
}

// Executes one call at a time. On a broken device it only returns the error.
template <typename Call>
cudaError_t call(Call body) {
  const std::scoped_lock lock(mutex);
  Device& d = device();
  return d.error != cudaSuccess ? d.error : body(d);
}

cudaError_t push(Device& d, cudaStream_t stream, std::function<void()> run) {
  Stream& to = d.of(stream);
  if (to.captured) {
    to.captured->operations.push_back(std::move(run));
  } else {
    to.operations.push_back({.run = std::move(run)});
  }
  return cudaSuccess;
}

cudaError_t wait_for(Device& d, cudaStream_t stream) {
  Stream& waited = d.of(stream);
  if (waited.captured) return cudaErrorStreamCaptureUnsupported;
  return d.run_until([&] { return waited.operations.empty(); });
}

}  // namespace

cudaError_t enqueue(cudaStream_t stream, std::function<void()> operation) {
  return call([&](Device& d) { return push(d, stream, std::move(operation)); });
}

void use_stream_seed(std::uint64_t seed) {
  const std::scoped_lock lock(mutex);
  device().random.seed(seed);
}

void use_device_memory(std::size_t bytes) {
  const std::scoped_lock lock(mutex);
  device().limit = bytes;
}

}  // namespace mlk::emulator

using namespace mlk::emulator;

extern "C" {

// ---- the device

// As many devices as the pod requests, as on a node whose device plugin gives the pod all of them.
cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(from_environment("MLK_EMULATED_DEVICES", from_environment("MLK_GPUS", 1)));
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = static_cast<int>(from_environment("MLK_EMULATED_DRIVER", CUDART_VERSION));
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "emulated device");
  properties->major = static_cast<int>(from_environment("MLK_EMULATED_CAPABILITY", 80)) / 10;
  properties->minor = static_cast<int>(from_environment("MLK_EMULATED_CAPABILITY", 80)) % 10;
  properties->multiProcessorCount = 4;
  properties->totalGlobalMem = device().limit;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int) {
  std::snprintf(id, static_cast<std::size_t>(size), "0000:65:00.0");
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call([&](Device& d) {
    *total = d.limit;
    *free = d.limit - std::min(d.limit, d.in_use);
    return cudaSuccess;
  });
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorECCUncorrectable:
      return "uncorrectable ECC error encountered";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    default:
      return "an error";
  }
}
cudaError_t cudaGetLastError() { return cudaSuccess; }

// ---- memory

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return call([&](Device& d) {
    if (d.in_use + bytes > d.limit) return cudaErrorMemoryAllocation;
    *address = std::malloc(std::max<std::size_t>(bytes, 1));
    if (!*address) return cudaErrorMemoryAllocation;
    std::memset(*address, 0xff, bytes);  // NaN
    d.memory.emplace(static_cast<const char*>(*address), bytes);
    d.in_use += bytes;
    return cudaSuccess;
  });
}
cudaError_t cudaFree(void* address) {
  return call([&](Device& d) {
    if (!address) return cudaSuccess;
    // cudaFree() waits for the whole device.
    d.run_until([&] {
      return d.default_stream.operations.empty() &&
             std::ranges::all_of(d.streams, [](const auto& stream) { return stream->operations.empty(); });
    });
    const auto found = d.memory.find(static_cast<const char*>(address));
    if (found == d.memory.end()) return cudaErrorInvalidValue;
    d.in_use -= found->second;
    d.memory.erase(found);
    std::free(address);
    return d.error;
  });
}
cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return call([&](Device& d) {
    *address = std::malloc(std::max<std::size_t>(bytes, 1));
    if (!*address) return cudaErrorMemoryAllocation;
    d.pinned.emplace(static_cast<const char*>(*address), bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaFreeHost(void* address) {
  return call([&](Device& d) {
    if (address && d.pinned.erase(static_cast<const char*>(address)) == 0) return cudaErrorInvalidValue;
    std::free(address);
    return cudaSuccess;
  });
}

// Pinned memory is read and written when the stream reaches the copy. Other memory of the host is read at
// once, or is written before the function returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([&](Device& d) {
    if (bytes == 0) return cudaSuccess;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    if (d.is_device(from, bytes) != from_device || d.is_device(to, bytes) != to_device)
      return cudaErrorInvalidValue;
    if (!from_device && !d.is_pinned(from, bytes)) {
      const auto* first = static_cast<const char*>(from);
      return push(d, stream, [to, copy = std::vector<char>(first, first + bytes)] {
        std::memcpy(to, copy.data(), copy.size());
      });
    }
    push(d, stream, [to, from, bytes] { std::memcpy(to, from, bytes); });
    return to_device || d.is_pinned(to, bytes) ? cudaSuccess : wait_for(d, stream);
  });
}
cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t stream) {
  return call([&](Device& d) {
    if (bytes > 0 && !d.is_device(address, bytes)) return cudaErrorInvalidValue;
    return push(d, stream, [=] { std::memset(address, value, bytes); });
  });
}

// ---- streams and events

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return call([&](Device& d) {
    *stream = d.streams.insert(std::make_unique<Stream>()).first->get();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&](Device& d) {
    wait_for(d, stream);
    std::erase_if(d.streams, [stream](const auto& entry) { return entry.get() == stream; });
    return d.error;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&](Device& d) { return wait_for(d, stream); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call([&](Device& d) {
    const auto known = d.events.at(event);
    d.of(stream).operations.push_back({[] {}, known, known->recorded});
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return call([&](Device& d) {
    auto made = std::make_shared<CUevent_st>();
    *event = made.get();
    d.events.emplace(*event, std::move(made));
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&](Device& d) { return d.events.erase(event) > 0 ? cudaSuccess : cudaErrorInvalidValue; });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&](Device& d) {
    const auto known = d.events.at(event);
    return push(d, stream, [&d, known, number = ++known->recorded] {
      known->reached = number;
      known->reached_at = d.operations_run;
    });
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&](Device& d) {
    const auto known = d.events.at(event);
    return d.run_until([&] { return known->reached >= known->recorded; });
  });
}
// Each query runs at most one operation of the device.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&](Device& d) {
    const auto known = d.events.at(event);
    if (known->reached < known->recorded) d.step();
    return known->reached < known->recorded ? cudaErrorNotReady : d.error;
  });
}

// Each operation counts as one millisecond.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return call([&](Device& d) {
    const auto first = d.events.at(begin), last = d.events.at(end);
    if (first->reached < first->recorded || last->reached < last->recorded) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(last->reached_at - first->reached_at);
    return d.error;
  });
}

// ---- graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return call([&](Device& d) {
    if (d.of(stream).captured) return cudaErrorIllegalState;
    d.of(stream).captured = std::make_unique<CUgraph_st>();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&](Device& d) {
    if (!d.of(stream).captured) return cudaErrorIllegalState;
    *graph = d.of(stream).captured.release();
    return cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->operations};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call([&](Device& d) {
    for (const auto& operation : executable->operations) push(d, stream, operation);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
}
