// Reading checkpoints back. Nothing in them is trusted.
#pragma once

#include <filesystem>
#include <span>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "runtime/model/model.h"

namespace mlk::rt {

// The state in the folder of one checkpoint, whatever number of processes wrote it. Takes the memory of the
// state and no more. Throws std::runtime_error that says why it cannot be used.
TrainingState read_checkpoint(const std::filesystem::path& folder, std::span<const TensorInfo> tensors);

// Throws std::runtime_error unless it is a checkpoint of the step, all of whose files have the sizes and
// checksums of its manifest. Whether it fits a model is not looked at.
void verify_checkpoint(const std::filesystem::path& folder, std::uint64_t step);

// Throws std::runtime_error unless the file in the folder has the size and the checksum.
void verify_file(const std::filesystem::path& folder, const WrittenFile& file);

}  // namespace mlk::rt
