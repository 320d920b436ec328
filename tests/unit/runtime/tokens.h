// Texts and token shards for tests.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/random.h"

namespace mlk::test {

// Sentences of made-up words. The next byte depends on more than the one byte before it.
inline std::string text_of_a_grammar(std::size_t size) {
  const std::array<std::string, 8> nouns = {"river", "stone",  "garden", "winter",
                                            "ship",  "letter", "horse",  "mountain"};
  const std::array<std::string, 6> verbs = {"carries", "remembers", "follows", "meets", "crosses", "leaves"};
  std::string text;
  for (std::uint64_t i = 0; text.size() < size; i += 3) {
    const auto pick = [&](std::uint64_t k, std::size_t of) {
      return static_cast<std::size_t>(rt::uniform(11, k, i + k) * static_cast<float>(of));
    };
    text += "the " + nouns[pick(0, 8)] + " " + verbs[pick(1, 6)] + " the " + nouns[pick(2, 8)] + ".\n";
  }
  return text.substr(0, size);
}

// The mean loss if each byte is predicted as well as possible from the byte before it.
inline double loss_of_pairs(const std::string& text) {
  std::vector<double> pairs(256 * 256), singles(256);
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    const auto before = static_cast<unsigned char>(text[i]), after = static_cast<unsigned char>(text[i + 1]);
    ++pairs[before * 256u + after];
    ++singles[before];
  }
  double sum = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i] > 0) sum -= pairs[i] * std::log(pairs[i] / singles[i / 256]);
  }
  return sum / static_cast<double>(text.size() - 1);
}

// A file of tokens with the header of llm.c.
inline std::string token_shard(const std::vector<std::uint16_t>& tokens, std::uint32_t promised) {
  std::string file;
  const auto put = [&](std::uint32_t value, int width) {
    for (int i = 0; i < width; ++i) file += static_cast<char>(value >> (8 * i));
  };
  put(20240520, 4);
  put(1, 4);
  put(promised, 4);
  file.resize(256 * 4);
  for (const std::uint16_t token : tokens) put(token, 2);
  return file;
}

inline std::string token_shard(const std::vector<std::uint16_t>& tokens) {
  return token_shard(tokens, static_cast<std::uint32_t>(tokens.size()));
}

}  // namespace mlk::test
