// What a file of weights is, by its first bytes and by the names in it, and whether what its description says
// is what a gpt computes. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/launch/config.h"

namespace mlk::rt {

// What a file that is no safetensors is instead, with what to do about it: "it is a file of PyTorch ...".
// Empty if its first bytes, 16 are enough, tell nothing.
std::string foreign_format(std::string_view first_bytes);

// The wrappers of PyTorch that all names begin with, "module._orig_mod." for one: they are no part of the
// model's own names. Empty if there are none.
std::string wrapper_of(std::span<const std::string> names);

// What the config.json of a GPT-2 says that a gpt of this configuration computes in another way, a line for
// each key, such as "n_head is 3, and model.heads is 2". Keys that it lacks have the values that transformers
// gives them, which are those of GPT-2.
std::vector<std::string> computed_otherwise(const nlohmann::json& description, const ModelConfig& model);

}  // namespace mlk::rt
