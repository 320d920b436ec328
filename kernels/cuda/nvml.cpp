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
constexpr int success = 0;

struct Nvml {
  int (*init)() = nullptr;
  int (*handle_by_bus_id)(const char* bus_id, Handle* handle) = nullptr;
  int (*utilisation)(Handle handle, Utilisation* rates) = nullptr;
  int (*memory)(Handle handle, Memory* info) = nullptr;
  int (*power)(Handle handle, unsigned* milliwatts) = nullptr;
  bool usable = false;
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
  return nvml;
}

}  // namespace

GpuUsage usage_of(int index) {
  static const Nvml nvml = open_nvml();
  GpuUsage usage;
  std::array<char, 32> bus_id{};
  Handle handle = nullptr;
  // The numbers of NVML and of CUDA differ where CUDA_VISIBLE_DEVICES is set; the place on the bus does not.
  const bool found = nvml.usable &&
                     cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), index) == cudaSuccess &&
                     nvml.handle_by_bus_id(bus_id.data(), &handle) == success;
  if (!found) return usage;
  Utilisation rates;
  if (nvml.utilisation(handle, &rates) == success) usage.utilisation = rates.gpu / 100.0;
  Memory info;
  if (nvml.memory(handle, &info) == success) usage.memory_bytes = static_cast<double>(info.used);
  unsigned milliwatts = 0;
  if (nvml.power(handle, &milliwatts) == success) usage.watts = milliwatts / 1000.0;
  return usage;
}

}  // namespace mlk::cuda
