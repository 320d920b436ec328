#include "kernels/cuda/early_copies.h"

namespace mlk::cuda {
namespace {

// Makes the calls one after the other until a call fails, and returns the error of that call.
template <typename... Calls>
cudaError_t in_turn(Calls... calls) {
  cudaError_t error = cudaSuccess;
  ((error = error == cudaSuccess ? calls() : error), ...);
  return error;
}

}  // namespace

// Waits for the copies, because the host memory to which they write may be freed next.
EarlyCopies::~EarlyCopies() {
  if (!ends_.empty()) cudaEventSynchronize(ends_.back());
  for (const cudaEvent_t event : ends_) cudaEventDestroy(event);
  for (const cudaEvent_t event : unused_) cudaEventDestroy(event);
  if (computed_) cudaEventDestroy(computed_);
  if (copies_) cudaStreamDestroy(copies_);
}

cudaError_t EarlyCopies::begin(cudaStream_t stream, const void* memory, void* values, std::size_t bytes,
                               std::uint64_t& number) {
  const auto make = [](cudaEvent_t& event) {
    return event ? cudaSuccess : cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  };
  cudaEvent_t end = nullptr;
  if (!unused_.empty()) {
    end = unused_.back();
    unused_.pop_back();
  }
  const cudaError_t made = in_turn(
      [&] { return copies_ ? cudaSuccess : cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking); },
      [&] { return make(computed_); }, [&] { return make(end); });
  if (made != cudaSuccess) return made;
  ends_.push_back(end);
  number = ++begun_;
  return in_turn([&] { return cudaEventRecord(computed_, stream); },
                 [&] { return cudaStreamWaitEvent(copies_, computed_, 0); },
                 [&] { return cudaMemcpyAsync(values, memory, bytes, cudaMemcpyDeviceToHost, copies_); },
                 [&] { return cudaEventRecord(end, copies_); });
}

cudaError_t EarlyCopies::wait(std::uint64_t number) {
  const std::uint64_t waited_for = begun_ - ends_.size();
  if (number <= waited_for) return cudaSuccess;
  const auto after = ends_.begin() + static_cast<std::ptrdiff_t>(number - waited_for);
  const cudaError_t error = cudaEventSynchronize(*(after - 1));
  unused_.insert(unused_.end(), ends_.begin(), after);
  ends_.erase(ends_.begin(), after);
  return error;
}

}  // namespace mlk::cuda
