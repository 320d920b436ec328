#include "kernels/cuda/recordings.h"

#include <utility>

#include "kernels/cuda/base/scratch.h"

namespace mlk::cuda {
namespace {

// When this many keys are known, the work of any other key runs without a recording: sizes that change
// from step to step are not worth a recording.
constexpr std::size_t most_recordings = 16;

}  // namespace

cudaError_t Recordings::run(std::uint64_t key, bool (*work)(void* context), void* context) {
  const auto found = recordings_.find(key);
  if (found == recordings_.end()) {
    work(context);
    if (recordings_.size() < most_recordings) recordings_[key] = {allocations, nullptr};
    return cudaSuccess;
  }
  Recording& recording = found->second;
  if (recording.allocations != allocations) {
    if (recording.graph) cudaGraphExecDestroy(std::exchange(recording.graph, nullptr));
    work(context);
    recording.allocations = allocations;
    return cudaSuccess;
  }
  if (!recording.graph) {
    const cudaError_t error = record(recording, work, context);
    if (error != cudaSuccess || !recording.graph) return error;
  }
  return cudaGraphLaunch(recording.graph, stream_);
}

cudaError_t Recordings::record(Recording& recording, bool (*work)(void* context), void* context) {
  cudaError_t error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return error;
  const bool whole = work(context);
  cudaGraph_t graph = nullptr;
  error = cudaStreamEndCapture(stream_, &graph);
  if (error == cudaSuccess && whole) error = cudaGraphInstantiate(&recording.graph, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  return error;
}

void Recordings::forget() {
  for (auto& [key, recording] : recordings_) {
    if (recording.graph) cudaGraphExecDestroy(recording.graph);
  }
  recordings_.clear();
}

}  // namespace mlk::cuda
