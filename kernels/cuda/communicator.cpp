#include "kernels/cuda/communicator.h"

#include <chrono>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

using mlk::cuda::nccl;

namespace {

constexpr std::chrono::seconds call_patience{2}, abort_patience{1};
constexpr std::chrono::microseconds look_interval{20};

}  // namespace

mlk_communicator::mlk_communicator(int device, cudaStream_t device_stream, const ncclUniqueId& id,
                                   int members, int index)
    : device_stream_(device_stream) {
  ncclConfig_t config;
  config.blocking = 0;
  if (!holds(cudaSetDevice(device), "cannot be used")) return;
  if (!holds(cudaStreamCreateWithFlags(&native_->stream, cudaStreamNonBlocking), "has no stream")) return;
  if (!holds(cudaEventCreateWithFlags(&native_->before, cudaEventDisableTiming), "has no event")) return;
  holds(nccl().init_rank_config(&native_->communicator, members, id, index, &config), "cannot join a group");
}

mlk_communicator::~mlk_communicator() { static_cast<void>(abort()); }

// Frees everything. Kernels of NCCL end once their communicator is aborted. If a call of NCCL in another
// thread does not return, this function waits only a short time for it: such a call ends only after the
// abort.
void mlk_communicator::Native::end() {
  std::unique_lock lock(calls, std::try_to_lock);
  // try_lock_for() is not used, because the thread sanitizer of gcc 12 does not know it.
  const auto until = std::chrono::steady_clock::now() + abort_patience / 2;
  while (!lock && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(look_interval);
    static_cast<void>(lock.try_lock());
  }
  if (communicator) nccl().abort(communicator);
  communicator = nullptr;
  for (const cudaEvent_t event : events) cudaEventDestroy(event);
  if (before) cudaEventDestroy(before);
  if (stream) cudaStreamDestroy(stream);
}

void mlk_communicator::fail(std::string why) {
  const std::scoped_lock lock(text_);
  if (failure_.empty()) failure_ = std::move(why);
}

const char* mlk_communicator::failure() {
  const std::scoped_lock lock(text_);
  return failure_.empty() ? nullptr : failure_.c_str();  // the text does not change any more
}

bool mlk_communicator::holds(ncclResult_t result, const char* doing) {
  if (result == ncclSuccess || result == ncclInProgress) return true;
  const char* const detail = nccl().last_error(native_->communicator);
  std::string why = std::string("NCCL ") + doing + ": " + nccl().error_string(result);
  if (detail && *detail) why += std::string(": ") + detail;
  fail(std::move(why));
  return false;
}

bool mlk_communicator::holds(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return true;
  fail(std::string("the GPU ") + doing + ": " + cudaGetErrorString(error));
  return false;
}

// This communicator does not block: NCCL may still work on a call after the call has returned. The next call
// must wait until that work is done.
bool mlk_communicator::begin_sum(float* numbers, std::size_t count, cudaEvent_t begin) {
  if (!holds(cudaEventRecord(native_->before, device_stream_), "cannot order its streams")) return false;
  if (!holds(cudaStreamWaitEvent(native_->stream, native_->before, 0), "cannot order its streams"))
    return false;
  if (!holds(cudaEventRecord(begin, native_->stream), "cannot order its streams")) return false;
  ncclResult_t result = nccl().all_reduce(numbers, numbers, count, ncclFloat32, ncclSum,
                                          native_->communicator, native_->stream);
  const auto until = std::chrono::steady_clock::now() + call_patience;
  while (result == ncclInProgress && !aborted_) {
    if (std::chrono::steady_clock::now() > until) {
      fail("NCCL does not begin a sum");
      return false;
    }
    std::this_thread::sleep_for(look_interval);
    if (!holds(nccl().get_async_error(native_->communicator, &result), "cannot be asked")) return false;
  }
  return holds(result, "cannot add up");
}

// Sets the two events of a sum, which record times. Events are reused, since making an event takes longer
// than recording it.
bool mlk_communicator::prepare(Sum& sum) {
  if (!unused_.empty()) {
    sum = unused_.back();
    unused_.pop_back();
    return true;
  }
  for (cudaEvent_t* const event : {&sum.begin, &sum.end}) {
    if (!holds(cudaEventCreateWithFlags(event, cudaEventDefault), "has no event")) return false;
    native_->events.push_back(*event);
  }
  return true;
}

void mlk_communicator::sum(float* numbers, std::size_t count) {
  const std::scoped_lock lock(native_->calls);
  if (aborted_ || failure()) return;
  Sum sum;
  if (!prepare(sum)) return;
  sum.bytes = count * sizeof(float);
  if (!begin_sum(numbers, count, sum.begin)) return;
  if (holds(cudaEventRecord(sum.end, native_->stream), "cannot order its streams")) under_way_.push_back(sum);
}

void mlk_communicator::traffic(double& bytes, double& seconds) {
  const std::scoped_lock lock(native_->calls);
  bytes = bytes_;
  seconds = seconds_;
}

int mlk_communicator::state() {
  const std::unique_lock lock(native_->calls, std::try_to_lock);
  if (!lock) return 0;
  if (aborted_ || failure()) return -1;
  ncclResult_t result = ncclSuccess;
  if (!holds(nccl().get_async_error(native_->communicator, &result), "cannot be asked")) return -1;
  if (!holds(result, "has failed")) return -1;
  if (result == ncclInProgress) return 0;
  while (!under_way_.empty()) {
    const Sum& first = under_way_.front();
    const cudaError_t asked = cudaEventQuery(first.end);
    if (asked == cudaErrorNotReady) return 0;
    float milliseconds = 0;
    if (!holds(asked, "has failed") ||
        !holds(cudaEventElapsedTime(&milliseconds, first.begin, first.end), "has failed"))
      return -1;
    bytes_ += static_cast<double>(first.bytes);
    seconds_ += static_cast<double>(milliseconds) / 1000;
    unused_.push_back(first);
    under_way_.pop_front();
    ++done_;
  }
  return 1;
}

// A separate thread calls NCCL's abort, because that function has been seen to hang.
bool mlk_communicator::abort() {
  if (aborted_.exchange(true)) return ended_;
  fail("NCCL was given up");
  std::promise<void> end;
  const auto ended = end.get_future();
  try {
    std::thread([native = native_, end = std::move(end)]() mutable {
      native->end();
      end.set_value();
    }).detach();
  } catch (const std::system_error&) {  // the system has refused another thread
    return false;
  }
  ended_ = ended.wait_for(abort_patience) == std::future_status::ready;
  return ended_;
}
