#include "kernels/cuda/nccl.h"

#include <cstdlib>
#include <dlfcn.h>

namespace mlk::cuda {
namespace {

constexpr int least_version = 21800;

std::string text_of(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Nccl open_nccl() {
  Nccl nccl;
  const char* const named = std::getenv("MLK_NCCL_LIBRARY");
  void* const library = dlopen(named && *named ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    nccl.why_none = dlerror();
    return nccl;
  }
  const bool whole = find(library, "ncclGetVersion", nccl.get_version) &&
                     find(library, "ncclGetUniqueId", nccl.get_unique_id) &&
                     find(library, "ncclCommInitRankConfig", nccl.init_rank_config) &&
                     find(library, "ncclCommGetAsyncError", nccl.get_async_error) &&
                     find(library, "ncclAllReduce", nccl.all_reduce) &&
                     find(library, "ncclCommAbort", nccl.abort) &&
                     find(library, "ncclGetErrorString", nccl.error_string) &&
                     find(library, "ncclGetLastError", nccl.last_error);
  int version = 0;
  if (!nccl.get_version || nccl.get_version(&version) != ncclSuccess) {
    nccl.why_none = "its version is not known";
  } else if (version < least_version) {
    nccl.why_none = "it is NCCL " + text_of(version) + ", and 2.18 or newer is needed";
  } else if (!whole) {
    nccl.why_none = "NCCL " + text_of(version) + " lacks a function that is needed";
  } else {
    nccl.version = version;
  }
  return nccl;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl opened = open_nccl();
  return opened;
}

}  // namespace mlk::cuda
