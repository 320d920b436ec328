// The values that NVIDIA's management library reports about a GPU. libnvidia-ml.so.1 comes with the driver
// and is opened at run time; the types are those of its ABI.
#pragma once

#include <optional>

struct nvmlEventSet_st;

namespace mlk::cuda {

// A negative number means that the value is not known.
struct GpuUsage {
  double utilisation = -1;   // share of the recent time in which a kernel ran
  double memory_bytes = -1;  // in use, by all processes
  double watts = -1;
};

// The usage of the GPU that has this number for CUDA in this process. All values are unknown if the library
// is missing. Any thread.
GpuUsage usage_of(int index);

// Collects the faults that the driver reports for a GPU after the construction of this object. NVIDIA lists
// the numbers of faults, which are called Xid. For one thread.
class XidEvents {
 public:
  explicit XidEvents(int index);  // index: as for usage_of()
  ~XidEvents();
  XidEvents(const XidEvents&) = delete;
  XidEvents& operator=(const XidEvents&) = delete;

  // The number of the last fault. After a failure, the driver may report the fault late, so this function
  // waits at most 200 ms for a report.
  std::optional<unsigned> last();

 private:
  nvmlEventSet_st* set_ = nullptr;
};

}  // namespace mlk::cuda
