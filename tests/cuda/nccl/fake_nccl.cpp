// The part of NCCL that mlk uses, for processes whose devices are emulated. The numbers go through files of
// the folder MLK_FAKE_NCCL_FOLDER. As with NCCL, calls do not block, a member does not learn that another
// member has ended, and an abort spoils the buffers.
//
// MLK_FAKE_NCCL names one fault of this process:
//
//   version=N       the library is NCCL N
//   join-fails      a group cannot be joined
//   hangs=N         the sums of a group wait for ever from number N on
//   fails=N         the N-th sum of a group ends with an error
//   miscounts=N     the N-th sum of a group has one number less than the caller has asked for
//   abort-hangs     the abort of the first group does not return; sums wait for ever from number 5 on
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/nccl.h"
#include "tests/cuda/emulator/streams.h"

namespace files = std::filesystem;

namespace {

struct Fault {
  std::string name;
  long number = 0;

  bool is(const char* wanted) const { return name == wanted; }
  bool is(const char* wanted, long at) const { return name == wanted && number == at; }
};

const Fault& fault() {
  static const Fault the_fault = [] {
    const char* const text = std::getenv("MLK_FAKE_NCCL");
    const std::string all = text ? text : "";
    const auto equals = all.find('=');
    return Fault{all.substr(0, equals), equals == std::string::npos ? 0 : std::stol(all.substr(equals + 1))};
  }();
  return the_fault;
}

}  // namespace

// The files of a group: "joined.RANK", and "N.RANK" with the numbers that a rank adds to sum N.
struct ncclComm {
  files::path folder;
  int ranks = 0, rank = 0;
  bool joined = false;
  long queued = 0;
  std::atomic<bool> aborted = false;
  std::atomic<ncclResult_t> error = ncclSuccess;

  files::path file(const std::string& of, int of_rank) const {
    return folder / (of + "." + std::to_string(of_rank));
  }
  void put(const std::string& of, const char* bytes, std::size_t size) const {
    const files::path whole = file(of, rank);
    files::path part = whole;
    part += ".part";
    std::ofstream(part, std::ios::binary).write(bytes, static_cast<std::streamsize>(size));
    files::rename(part, whole);
  }
  bool all_have_put(const std::string& of) const {
    for (int other = 0; other < ranks; ++other) {
      if (!files::exists(file(of, other))) return false;
    }
    return true;
  }
  // Adds in the order of the ranks, so that all members get the same bits. False: the sizes of the ranks
  // differ.
  bool add_up(const std::string& of, float* into, std::size_t count) const {
    std::vector<float> one(count);
    std::fill_n(into, count, 0.0f);
    for (int other = 0; other < ranks; ++other) {
      if (files::file_size(file(of, other)) != count * sizeof(float)) return false;
      std::ifstream(file(of, other), std::ios::binary)
          .read(reinterpret_cast<char*>(one.data()), static_cast<std::streamsize>(count * sizeof(float)));
      for (std::size_t i = 0; i < count; ++i) into[i] += one[i];
    }
    return true;
  }
};

namespace {

constexpr auto invalid_usage = static_cast<ncclResult_t>(5), internal_error = static_cast<ncclResult_t>(3),
               system_error = static_cast<ncclResult_t>(2);

// One sum, from the time when the stream reaches it.
struct Sum {
  std::shared_ptr<ncclComm> of;
  const float* from;
  float* to;
  std::size_t count;
  long number;
  bool begun = false;

  std::string name() const { return std::to_string(number); }

  bool is_ready() {
    if (of->aborted || of->error != ncclSuccess) return true;
    if (!begun) {
      const std::size_t given = fault().is("miscounts", number) ? count - 1 : count;
      of->put(name(), reinterpret_cast<const char*>(from), given * sizeof(float));
      begun = true;
    }
    const bool hangs =
        (fault().is("hangs") && number >= fault().number) || (fault().is("abort-hangs") && number >= 5);
    return !hangs && of->all_have_put(name());
  }
  void run() {
    if (of->aborted || of->error != ncclSuccess) return std::fill_n(to, count, NAN), void();
    if (fault().is("fails", number)) of->error = internal_error;
    if (!of->add_up(name(), to, count)) of->error = invalid_usage;
    // Each rank had read the previous sum before it added to this sum.
    if (number > 0) files::remove(of->file(std::to_string(number - 1), of->rank));
  }
};

std::mutex mutex;  // of the list

std::vector<std::shared_ptr<ncclComm>>& communicators() {
  static auto& all = *new std::vector<std::shared_ptr<ncclComm>>;  // an abort that hangs outlives main()
  return all;
}

std::shared_ptr<ncclComm> shared(ncclComm_t communicator) {
  const std::scoped_lock lock(mutex);
  for (const auto& one : communicators()) {
    if (one.get() == communicator) return one;
  }
  return nullptr;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] ncclResult_t ncclGetVersion(int* version) {
  *version = fault().is("version") ? static_cast<int>(fault().number) : 22809;
  return ncclSuccess;
}

[[gnu::visibility("default")]] ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  std::memset(id, 0, sizeof *id);
  for (char* at = id->internal; at < id->internal + 16; ++at) *at = static_cast<char>('a' + random() % 26);
  id->internal[127] = static_cast<char>(random());  // any value, as in NCCL's ids
  return ncclSuccess;
}

[[gnu::visibility("default")]] ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks,
                                                                   ncclUniqueId id, int rank,
                                                                   ncclConfig_t* config) {
  const char* const folder = std::getenv("MLK_FAKE_NCCL_FOLDER");
  if (config->blocking != 0 || !folder || ranks < 1 || rank < 0 || rank >= ranks) return invalid_usage;
  if (fault().is("join-fails")) return system_error;
  auto made = std::make_shared<ncclComm>();
  made->folder = files::path(folder) / id.internal;
  made->ranks = ranks;
  made->rank = rank;
  files::create_directories(made->folder);
  made->put("joined", "", 0);
  *communicator = made.get();
  const std::scoped_lock lock(mutex);
  communicators().push_back(std::move(made));
  return ncclInProgress;
}

[[gnu::visibility("default")]] ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator,
                                                                  ncclResult_t* error) {
  if (!communicator->joined) communicator->joined = communicator->all_have_put("joined");
  *error = communicator->error;
  if (*error == ncclSuccess && !communicator->joined) *error = ncclInProgress;
  return ncclSuccess;
}

[[gnu::visibility("default")]] ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count,
                                                          ncclDataType_t type, ncclRedOp_t operation,
                                                          ncclComm_t communicator, cudaStream_t stream) {
  if (type != ncclFloat32 || operation != ncclSum || !communicator->joined || !stream) return invalid_usage;
  auto sum = std::make_shared<Sum>(Sum{shared(communicator), static_cast<const float*>(from),
                                       static_cast<float*>(to), count, communicator->queued++});
  stream->push([sum] { return sum->is_ready(); }, [sum] { sum->run(); });
  return ncclSuccess;
}

[[gnu::visibility("default")]] ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  communicator->aborted = true;
  const auto is_first = [communicator] {
    const std::scoped_lock lock(mutex);
    return communicator == communicators().front().get();
  };
  while (fault().is("abort-hangs") && is_first()) std::this_thread::sleep_for(std::chrono::seconds(1));
  return ncclSuccess;
}

[[gnu::visibility("default")]] const char* ncclGetErrorString(ncclResult_t result) {
  return result == invalid_usage  ? "invalid usage"
         : result == system_error ? "unhandled system error"
                                  : "internal error";
}

[[gnu::visibility("default")]] const char* ncclGetLastError(ncclComm_t) { return ""; }
}
