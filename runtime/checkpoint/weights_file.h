// The weights of a model without the state of its training: the weights that a run begins with, and the
// weights that it writes at its end.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "kernels/floats.h"
#include "runtime/launch/config.h"
#include "runtime/model/model.h"

namespace mlk::rt {

// The parameters for a model with these tensors, from a safetensors file. The file has the model's tensors,
// as F32, F16 or BF16, and no others. For a GPT the file may be one of Hugging Face's GPT-2: names may lack
// the prefix "transformer.", the reader skips the causal masks of its blocks, and an lm_head.weight must be
// equal to the token embeddings. If the folder of the file has a config.json that describes a GPT-2, the
// reader also compares this description with the model. Throws Failure{bad_data} if no model can use the
// file, or Failure{bad_configuration} if the file is of another model. Both failures name the file.
kernels::Floats read_weights(const std::string& path, const ModelConfig& model,
                             std::span<const TensorInfo> tensors);

// Writes the parameters to folder/model.safetensors, and for a GPT the config.json that Hugging Face's
// transformers needs beside that file. Each file replaces an older file in one step, when it is complete.
// Makes the folder. Throws std::exception.
void write_weights(const std::filesystem::path& folder, const ModelConfig& model,
                   std::span<const TensorInfo> tensors, std::span<const float> parameters);

}  // namespace mlk::rt
