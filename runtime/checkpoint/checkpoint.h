// Checkpoints on disk: each is complete or does not exist.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/exit_code.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/model/model.h"

namespace mlk::rt {

// The folder with the checkpoints of one run: step-<number>/ with safetensors files and a manifest.json with
// their sizes and checksums. The files of a checkpoint are written into a temporary folder .tmp-* and read
// back. Then the manifest is written, and a rename makes the checkpoint visible. So the process may die at
// any point. Older checkpoints are removed only after the rename. The object holds only names, so several
// threads may use it.
class CheckpointStore {
 public:
  // keep: how many of the newest checkpoints stay, at least 1. The first save makes the folder. `log` must
  // outlive this object.
  CheckpointStore(std::string folder, int keep, const Log& log);

  // Tests whether a checkpoint can be written: makes the folder, and writes and removes a small file there.
  // Returns the reason if that fails, such as "Read-only file system"; otherwise an empty text.
  std::string why_unwritable() const;
  // Returns the failure with which a process ends if it cannot write checkpoints. The failure is final.
  Failure unwritable(const std::string& why) const;

  // Saves a checkpoint that one process makes alone; its tensors are in state.safetensors. If the disk fails
  // (full, read-only, gone), writes a line to the log and returns false, with the reason in `why`; training
  // continues.
  bool save(const Snapshot& snapshot, std::span<const TensorInfo> tensors, std::string* why = nullptr) const;

  // These functions make a checkpoint of several processes that share the folder. One process chooses the
  // name of the temporary folder. Each process writes a file into this folder, and then the process that
  // chose the name commits. If write or commit throws std::exception, call discard, which removes only
  // temporary folders.
  static std::string name_aside(std::uint64_t step);
  WrittenFile write(const std::string& aside, const std::string& file, const Snapshot& snapshot,
                    std::span<const TensorInfo> tensors) const;
  void commit(const std::string& aside, const Manifest& manifest) const;
  void discard(const std::string& aside) const;

  // Tests whether two processes see the same folder: one process leaves a mark under a unique name and sends
  // the name to the other process, which removes the mark. remove_mark() returns false if the mark is missing
  // or cannot be removed.
  static std::string name_mark();
  bool leave_mark(const std::string& mark) const;
  bool remove_mark(const std::string& mark) const;

  // Returns the newest step that has a folder, or 0 if none has. Reads only the names of folders.
  std::uint64_t newest_step() const;

  // Returns whether all files of the newest checkpoint have the sizes and checksums that its manifest says.
  // Does not need the tensors of the model.
  bool newest_is_whole() const;

  // Loads the newest checkpoint that is intact and fits the tensors, and logs each checkpoint that it skips.
  // Returns nothing if there is no checkpoint. Another process may save at the same time. Throws
  // Failure{checkpoint_unusable} if there are checkpoints and none can be used, or if the folder cannot be
  // listed.
  std::optional<TrainingState> load_newest(std::span<const TensorInfo> tensors) const;

  // Logs that there is no checkpoint of the step, and why.
  void warn(std::uint64_t step, const std::string& reason) const;

 private:
  void prune(std::uint64_t saved_step) const;

  std::string folder_;
  int keep_;
  const Log& log_;
};

// The line of the log for a step without a checkpoint.
std::string no_checkpoint_line(std::uint64_t step, const std::string& reason);

// The reason of an error without the name of the file: "No space left on device". Pure.
std::string reason_of(const std::exception& error);

// The failure of a process that has trained its model, but could not write the last checkpoint within its
// patience. The failure is final: a retry would train the same steps again, and could not save them either.
Failure unsaved(const std::string& reason);

}  // namespace mlk::rt
