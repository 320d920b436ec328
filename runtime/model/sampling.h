// Text that a model goes on with by itself: what it has learnt, for people.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/launch/config.h"
#include "runtime/model/gpt.h"

namespace mlk::rt {

// The index that is drawn with probabilities proportional to exp(logit / temperature); with temperature 0, or
// one so small that nothing else is left, the largest logit's (the first of equals). The logits are finite
// and at least one; random is in [0, 1).
int draw_token(std::span<const float> logits, double temperature, float random);

// So many tokens, each drawn by the model's logits after the last `context` tokens before it, the first of
// which is `begin`. The random numbers depend on the seed and the place of a token alone. Computes a whole
// sequence for each token. Ends early when `stop`, which is asked before each, returns true.
std::vector<std::int32_t> sample_tokens(Gpt& model, std::int32_t begin, const SampleConfig& config,
                                        std::uint64_t seed, const std::function<bool()>& stop);

// The token that a sample follows: a new line of a text; GPT-2's end of text, if the vocabulary has it, or
// else token 0.
std::int32_t first_token(const DataConfig& data);

// On one line: of a text in quotation marks, with escape sequences of JSON and C for what is not printable
// ASCII; otherwise the numbers.
std::string shown_tokens(std::span<const std::int32_t> tokens, DataFormat format);

}  // namespace mlk::rt
