// Text that a model generates, to show people what it has learnt.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/launch/config.h"
#include "runtime/model/gpt.h"

namespace mlk::rt {

// Draws an index with a probability proportional to exp(logit / temperature). With temperature 0, or a
// temperature so small that every other probability is 0, returns the index of the largest logit (the first
// of equals). There is at least one logit, and logits are finite; random is in [0, 1).
int draw_token(std::span<const float> logits, double temperature, float random);

// Generates config.tokens tokens after `begin`. Draws each token from the logits that the model computes from
// the last `context` tokens before it. The random numbers depend only on the seed and the index of the token.
// Each token costs a forward pass over a whole sequence. Calls `stop` before each token, and ends early when
// `stop` returns true.
std::vector<std::int32_t> sample_tokens(Gpt& model, std::int32_t begin, const SampleConfig& config,
                                        std::uint64_t seed, const std::function<bool()>& stop);

// Returns the token after which a sample begins. For a text, this is a new line; otherwise it is GPT-2's end
// of text if the vocabulary has it, or else token 0.
std::int32_t first_token(const DataConfig& data);

// Formats the tokens as one line. A text is in quotation marks, with escape sequences of JSON and C for bytes
// that are not printable ASCII; other formats show the numbers of the tokens.
std::string shown_tokens(std::span<const std::int32_t> tokens, DataFormat format);

}  // namespace mlk::rt
