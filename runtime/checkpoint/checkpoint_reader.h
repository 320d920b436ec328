// Reads checkpoints. Does not trust their content.
#pragma once

#include <filesystem>
#include <span>

#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/model/model.h"

namespace mlk::rt {

// Reads the state from the folder of one checkpoint, whatever the number of processes that wrote it. Needs
// memory for the state only. Throws std::runtime_error whose text says why the checkpoint cannot be used.
TrainingState read_checkpoint(const std::filesystem::path& folder, std::span<const TensorInfo> tensors);

// Throws std::runtime_error if the folder is not a checkpoint of the step, or if a file has another size or
// checksum than the manifest says. Does not check whether the checkpoint fits a model.
void verify_checkpoint(const std::filesystem::path& folder, std::uint64_t step);

// Throws std::runtime_error if the file in the folder has another size or checksum than `file` says.
void verify_file(const std::filesystem::path& folder, const WrittenFile& file);

}  // namespace mlk::rt
