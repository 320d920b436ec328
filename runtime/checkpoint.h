// Checkpoints on disk: complete or not there at all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/log.h"
#include "runtime/model.h"

namespace mlk::rt {

// Everything that training needs to go on as if it had not stopped.
struct TrainingState {
  std::uint64_t step = 0;      // updates applied
  std::uint64_t position = 0;  // samples taken, see sampler.h
  std::vector<float> parameters;
  // What the optimizer keeps of each parameter (optimizer.h): slots as long as the parameters, one after the
  // other; or empty: zeros.
  std::vector<float> optimizer_state;
};

// A folder of checkpoints of one run: step-<number>/{state.safetensors, manifest.json}. The manifest is
// written last, with sizes and checksums, and the folder appears by one rename, so a process may die at any
// point of save().
class CheckpointStore {
 public:
  // keep: how many of the newest stay, at least 1. The folder is made by the first save. `log` must outlive
  // this.
  CheckpointStore(std::string folder, int keep, const Log& log);

  // Commits a checkpoint and removes old ones. What goes wrong on disk (full, read-only, gone) is a line in
  // the log and `false`: training goes on without.
  bool save(const TrainingState& state, std::span<const TensorInfo> tensors);

  // The newest checkpoint that verifies and fits the tensors; what is passed over is named in the log.
  // Nothing if there is none. Throws Failure{checkpoint_unusable} if there are some and none can be used.
  std::optional<TrainingState> load_newest(std::span<const TensorInfo> tensors) const;

 private:
  void prune(std::uint64_t saved_step) const;

  std::string folder_;
  int keep_;
  const Log& log_;
};

}  // namespace mlk::rt
