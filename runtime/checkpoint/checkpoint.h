// Checkpoints on disk: complete or not there at all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kernels/floats.h"
#include "runtime/base/exit_code.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/model/model.h"

namespace mlk::rt {

// Everything that training needs to go on as if it had not stopped.
struct TrainingState {
  std::uint64_t step = 0;      // updates applied
  std::uint64_t position = 0;  // samples taken, see sampler.h
  kernels::Floats parameters;
  // Of the optimizer: slots times as long as parameters, all of slot 0 first; or empty: there is none yet.
  kernels::Floats optimizer_state;
  std::uint64_t state_since = 0;  // the step at which the optimizer's state was zeros, or would have been
  RunHistory history = {};
};

// A folder of checkpoints of one run: step-<number>/ with safetensors files and a manifest.json, which has
// their sizes and checksums. They are written into a folder aside, .tmp-*, the manifest last, and the folder
// appears by one rename: a process may die at any point. What was written is read back before that, and only
// then older checkpoints go. Keeps nothing but names: safe for several threads.
class CheckpointStore {
 public:
  // keep: how many of the newest stay, at least 1. The folder is made by the first save. `log` must outlive
  // this.
  CheckpointStore(std::string folder, int keep, const Log& log);

  // A checkpoint by one process, in state.safetensors. What goes wrong on disk (full, read-only, gone) is a
  // line in the log and `false`: training goes on without.
  bool save(const Snapshot& snapshot, std::span<const TensorInfo> tensors) const;

  // A checkpoint by several processes that share the folder. Each writes a file into the same folder aside,
  // whose name one of them made up; when all have, that one commits. Both throw std::exception; then discard,
  // which leaves alone what is no folder aside.
  static std::string name_aside(std::uint64_t step);
  WrittenFile write(const std::string& aside, const std::string& file, const Snapshot& snapshot,
                    std::span<const TensorInfo> tensors) const;
  void commit(const std::string& aside, const Manifest& manifest) const;
  void discard(const std::string& aside) const;

  // Whether the folder is the same for two processes: one leaves a mark under a name of its own and tells the
  // other, who takes it away. False if that cannot be done, or is not there.
  static std::string name_mark();
  bool leave_mark(const std::string& mark) const;
  bool take_mark(const std::string& mark) const;

  // The newest step that claims to have a checkpoint; 0: none. Looks at names only.
  std::uint64_t newest_step() const;

  // Whether the checkpoint of the newest step is whole, for those who do not know the model.
  bool newest_is_whole() const;

  // The newest checkpoint that verifies and fits the tensors; what is passed over is named in the log.
  // Nothing if there is none. Another process may save meanwhile. Throws Failure{checkpoint_unusable} if
  // there are some and none can be used.
  std::optional<TrainingState> load_newest(std::span<const TensorInfo> tensors) const;

  // Says in the log that there is no checkpoint of the step, and why.
  void warn(std::uint64_t step, const std::string& reason) const;

 private:
  void prune(std::uint64_t saved_step) const;

  std::string folder_;
  int keep_;
  const Log& log_;
};

// What the log says when there is none of the step.
std::string no_checkpoint_line(std::uint64_t step, const std::string& reason);

// How a process ends that is trained, but whose last checkpoint could not be written: a retry goes on from
// the one before.
Failure unsaved();
[[noreturn]] void fail_unsaved();  // throws it

}  // namespace mlk::rt
