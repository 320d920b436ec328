#include "kernels/cuda/nvml.h"

#include <array>
#include <cstdlib>
#include <dlfcn.h>

#include <cuda_runtime.h>

namespace mlk::cuda {
namespace {

using Handle = struct nvmlDevice_st*;
struct Utilisation {
  unsigned gpu = 0, memory = 0;  // percent
};
struct Memory {
  unsigned long long total = 0, free = 0, used = 0;
};
struct EventData {
  Handle device = nullptr;
  unsigned long long type = 0, data = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};
constexpr int success = 0;
constexpr unsigned long long xid_event = 8;
constexpr unsigned event_patience = 200;  // ms

struct Nvml {
  int (*init)() = nullptr;
  int (*handle_by_bus_id)(const char* bus_id, Handle* handle) = nullptr;
  int (*utilisation)(Handle handle, Utilisation* rates) = nullptr;
  int (*memory)(Handle handle, Memory* info) = nullptr;
  int (*power)(Handle handle, unsigned* milliwatts) = nullptr;
  bool usable = false;

  int (*create_events)(nvmlEventSet_st** set) = nullptr;
  int (*register_events)(Handle handle, unsigned long long types, nvmlEventSet_st* set) = nullptr;
  int (*wait_for_event)(nvmlEventSet_st* set, EventData* data, unsigned milliseconds) = nullptr;
  int (*free_events)(nvmlEventSet_st* set) = nullptr;
  bool has_events = false;

  // The handle of the GPU that has this number in CUDA; null if the handle is not known. If
  // CUDA_VISIBLE_DEVICES is set, NVML and CUDA number the GPUs differently, so this function finds the GPU by
  // its PCI bus id.
  Handle handle_of(int index) const {
    std::array<char, 32> bus_id{};
    Handle handle = nullptr;
    const bool found = usable && cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), index) == cudaSuccess &&
                       handle_by_bus_id(bus_id.data(), &handle) == success;
    return found ? handle : nullptr;
  }
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Nvml open_nvml() {
  Nvml nvml;
  const char* const named = std::getenv("MLK_NVML_LIBRARY");
  void* const library = dlopen(named && *named ? named : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  nvml.usable = library && find(library, "nvmlInit_v2", nvml.init) &&
                find(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.handle_by_bus_id) &&
                find(library, "nvmlDeviceGetUtilizationRates", nvml.utilisation) &&
                find(library, "nvmlDeviceGetMemoryInfo", nvml.memory) &&
                find(library, "nvmlDeviceGetPowerUsage", nvml.power) && nvml.init() == success;
  nvml.has_events = nvml.usable && find(library, "nvmlEventSetCreate", nvml.create_events) &&
                    find(library, "nvmlDeviceRegisterEvents", nvml.register_events) &&
                    find(library, "nvmlEventSetWait_v2", nvml.wait_for_event) &&
                    find(library, "nvmlEventSetFree", nvml.free_events);
  return nvml;
}

const Nvml& nvml() {
  static const Nvml opened = open_nvml();
  return opened;
}

}  // namespace

GpuUsage usage_of(int index) {
  GpuUsage usage;
  const Handle handle = nvml().handle_of(index);
  if (!handle) return usage;
  Utilisation rates;
  if (nvml().utilisation(handle, &rates) == success) usage.utilisation = rates.gpu / 100.0;
  Memory info;
  if (nvml().memory(handle, &info) == success) usage.memory_bytes = static_cast<double>(info.used);
  unsigned milliwatts = 0;
  if (nvml().power(handle, &milliwatts) == success) usage.watts = milliwatts / 1000.0;
  return usage;
}

XidEvents::XidEvents(int index) {
  const Handle handle = nvml().handle_of(index);
  if (!handle || !nvml().has_events || nvml().create_events(&set_) != success) return;
  if (nvml().register_events(handle, xid_event, set_) == success) return;  // some GPUs have no such events
  nvml().free_events(set_);
  set_ = nullptr;
}

XidEvents::~XidEvents() {
  if (set_) nvml().free_events(set_);
}

std::optional<unsigned> XidEvents::last() {
  constexpr int most = 100;  // events that are read
  std::optional<unsigned> number;
  EventData event;
  for (int i = 0; i < most && set_; ++i) {
    if (nvml().wait_for_event(set_, &event, i == 0 ? event_patience : 0) != success) break;
    if (event.type == xid_event) number = static_cast<unsigned>(event.data);
  }
  return number;
}

}  // namespace mlk::cuda
