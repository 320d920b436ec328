// What NVIDIA's management library tells of a GPU. libnvidia-ml.so.1 comes with the driver and is opened at
// run time; the types are those of its ABI.
#pragma once

#include <optional>

struct nvmlEventSet_st;

namespace mlk::cuda {

// Negative: not known.
struct GpuUsage {
  double utilisation = -1;   // share of the time in which a kernel ran, of late
  double memory_bytes = -1;  // in use, by all processes
  double watts = -1;
};

// Of the GPU with this number in the process, for CUDA. All of it is unknown where the library is not there.
// Any thread.
GpuUsage usage_of(int index);

// Collects the faults of a GPU that its driver reports after the construction. NVIDIA lists their numbers,
// which are called Xid. For one thread.
class XidEvents {
 public:
  explicit XidEvents(int index);  // as above
  ~XidEvents();
  XidEvents(const XidEvents&) = delete;
  XidEvents& operator=(const XidEvents&) = delete;

  // The number of the last one. After a failure it may come late: waits for it at most 200 ms.
  std::optional<unsigned> last();

 private:
  nvmlEventSet_st* set_ = nullptr;
};

}  // namespace mlk::cuda
