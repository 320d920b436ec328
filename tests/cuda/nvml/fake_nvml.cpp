// The part of NVML that mlk uses. It knows one GPU, which has the PCI bus id of the emulated device: 87 %
// used, 3 GiB in use, 312.5 W. With MLK_FAKE_NVML=no-power the GPU does not report its power, as some GPUs do
// not. With MLK_FAKE_NVML=xid-N the driver reports the fault N.
#include <cstdlib>
#include <cstring>

struct Rates {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};

extern "C" {

[[gnu::visibility("default")]] int nvmlInit_v2() { return 0; }

[[gnu::visibility("default")]] int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** handle) {
  static int the_gpu;
  *handle = &the_gpu;
  constexpr int not_found = 6;
  return std::strcmp(bus_id, "0000:65:00.0") == 0 ? 0 : not_found;
}

[[gnu::visibility("default")]] int nvmlDeviceGetUtilizationRates(void*, Rates* rates) {
  *rates = {87, 20};
  return 0;
}

[[gnu::visibility("default")]] int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {80ULL << 30, 77ULL << 30, 3ULL << 30};
  return 0;
}

[[gnu::visibility("default")]] int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  const char* const fault = std::getenv("MLK_FAKE_NVML");
  constexpr int not_supported = 3;
  if (fault && std::strcmp(fault, "no-power") == 0) return not_supported;
  *milliwatts = 312500;
  return 0;
}

struct nvmlEventSet_st {
  bool registered = false;
};
struct EventData {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

[[gnu::visibility("default")]] int nvmlEventSetCreate(nvmlEventSet_st** set) {
  *set = new nvmlEventSet_st;
  return 0;
}

[[gnu::visibility("default")]] int nvmlEventSetFree(nvmlEventSet_st* set) {
  delete set;
  return 0;
}

[[gnu::visibility("default")]] int nvmlDeviceRegisterEvents(void*, unsigned long long types,
                                                            nvmlEventSet_st* set) {
  constexpr unsigned long long xid = 8;
  set->registered = types == xid;
  return 0;
}

[[gnu::visibility("default")]] int nvmlEventSetWait_v2(nvmlEventSet_st* set, EventData* event, unsigned) {
  constexpr int timeout = 10;
  const char* const fault = std::getenv("MLK_FAKE_NVML");
  if (!set->registered || !fault || std::strncmp(fault, "xid-", 4) != 0) return timeout;
  *event = {nullptr, 8, std::strtoull(fault + 4, nullptr, 10), 0, 0};
  return 0;
}
}
