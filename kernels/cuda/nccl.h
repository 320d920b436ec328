// The functions of NCCL that mlk uses. libnccl.so.2 is opened at run time. It is not a part of mlk, but comes
// with the container image. The types are those of NCCL's ABI, which has been stable since 2.18.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include <cuda_runtime.h>

extern "C" {

using ncclComm_t = struct ncclComm*;

struct ncclUniqueId {
  char internal[128];
};

// Numbers of NCCL's results, types and operations.
enum ncclResult_t { ncclSuccess = 0, ncclInProgress = 7 };
enum ncclDataType_t { ncclFloat32 = 7 };
enum ncclRedOp_t { ncclSum = 0 };

// The configuration of NCCL 2.18. A later library uses its defaults for missing fields, since `size` shows
// which fields are there.
struct ncclConfig_t {
  std::size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = INT_MIN;  // INT_MIN: undefined, here and below
  int cga_cluster_size = INT_MIN;
  int least_ctas = INT_MIN;
  int most_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};
}

namespace mlk::cuda {

struct Nccl {
  int version = 0;       // 2.28.9 is 22809; 0: NCCL cannot be used
  std::string why_none;  // if version is 0: a sentence

  ncclResult_t (*get_version)(int* version) = nullptr;
  ncclResult_t (*get_unique_id)(ncclUniqueId* id) = nullptr;
  ncclResult_t (*init_rank_config)(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                   ncclConfig_t* config) = nullptr;
  ncclResult_t (*get_async_error)(ncclComm_t communicator, ncclResult_t* error) = nullptr;
  ncclResult_t (*all_reduce)(const void* from, void* to, std::size_t count, ncclDataType_t type,
                             ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) = nullptr;
  ncclResult_t (*abort)(ncclComm_t communicator) = nullptr;
  const char* (*error_string)(ncclResult_t result) = nullptr;
  const char* (*last_error)(ncclComm_t communicator) = nullptr;
};

// The first call opens the library that the environment variable MLK_NCCL_LIBRARY names. Without the
// variable, it opens the libnccl.so.2 that the loader finds. Any thread may call it.
const Nccl& nccl();

}  // namespace mlk::cuda
