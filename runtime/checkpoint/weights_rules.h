// Recognises files of weights by their first bytes and by the names in them, and checks whether a description
// (config.json) matches what a gpt computes. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/launch/config.h"

namespace mlk::rt {

// The format of a file that is not a safetensors file, and what to do about it: "it is a file of PyTorch
// ...". Empty if its first bytes (16 are enough) match no known format.
std::string foreign_format(std::string_view first_bytes);

// The prefix that PyTorch's wrappers put before all names, such as "module._orig_mod.". The prefix is not
// part of the model's own names. Empty if there is no such prefix.
std::string wrapper_of(std::span<const std::string> names);

// The settings in the config.json of a GPT-2 that differ from what a gpt of this configuration computes: a
// line for each key, such as "n_head is 3, and model.heads is 2". A key that config.json lacks is not
// reported, because the default of transformers is the value of GPT-2.
std::vector<std::string> computed_otherwise(const nlohmann::json& description, const ModelConfig& model);

}  // namespace mlk::rt
