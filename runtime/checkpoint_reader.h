// Reading checkpoints back. Nothing in them is trusted.
#pragma once

#include <filesystem>
#include <span>

#include "runtime/checkpoint.h"
#include "runtime/checkpoint_format.h"
#include "runtime/model.h"

namespace mlk::rt {

// The state in the folder of one checkpoint, whatever number of processes wrote it. Takes the memory of the
// state and no more. Throws std::runtime_error that says why it cannot be used.
TrainingState read_checkpoint(const std::filesystem::path& folder, std::span<const TensorInfo> tensors);

// Throws std::runtime_error unless the file in the folder has the size and the checksum.
void verify_file(const std::filesystem::path& folder, const WrittenFile& file);

}  // namespace mlk::rt
