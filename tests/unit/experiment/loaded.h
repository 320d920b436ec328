// Experiments loaded from text, for the tests of this folder.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "cli/experiment/load.h"
#include "cli/util/error.h"

namespace mlk::test {

inline constexpr char smallest[] = "name: x\nmode: single\ntrain: {data: {path: /data}, steps: 10}\n";

inline Experiment load(const std::string& text, const Overrides& overrides = {}) {
  return load_experiment(text, "x.yaml", overrides,
                         {{"allreduce", "mine", "ps", "single"}, {"jax", "torch"}});
}

inline std::string refusal(const std::string& text, const Overrides& overrides = {}) {
  try {
    load(text, overrides);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// The lines of an error that describe mistakes, without the excerpts of the text.
inline std::string problems_of(const std::string& text, const Overrides& overrides = {}) {
  const std::string all = refusal(text, overrides);
  std::string out;
  for (std::size_t start = 0; start < all.size();) {
    const std::size_t end = std::min(all.find('\n', start), all.size());
    if (all[start] != ' ') out += all.substr(start, end - start) + "\n";
    start = end + 1;
  }
  return out.empty() ? out : out.substr(0, out.size() - 1);
}

inline Overrides set(std::vector<std::string> arguments) {
  return {.set = std::move(arguments), .env = {}, .image = ""};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace mlk::test
