// The weights of a model without the state of its training: those that a run begins with, and those that it
// leaves.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "kernels/floats.h"
#include "runtime/launch/config.h"
#include "runtime/model/model.h"

namespace mlk::rt {

// The parameters for a model with these tensors, from a safetensors file. The file has the model's tensors,
// as F32, F16 or BF16, and no others. That of a GPT may be one of Hugging Face's GPT-2: names may lack the
// prefix "transformer.", the causal masks of its blocks are passed over, and an lm_head.weight must be equal
// to the token embeddings. If there is a config.json in the folder of the file that tells how a GPT-2
// computes, it is compared with the model as well. Throws Failure{bad_data} if the file cannot be used by any
// model, or Failure{bad_configuration} if it is of another model. Both name the file.
kernels::Floats read_weights(const std::string& path, const ModelConfig& model,
                             std::span<const TensorInfo> tensors);

// Leaves the parameters in folder/model.safetensors, and of a GPT the config.json that Hugging Face's
// transformers needs beside it. Each file replaces an older one at once, when it is whole. Makes the folder.
// Throws std::exception.
void write_weights(const std::filesystem::path& folder, const ModelConfig& model,
                   std::span<const TensorInfo> tensors, std::span<const float> parameters);

}  // namespace mlk::rt
