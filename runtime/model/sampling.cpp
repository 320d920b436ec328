#include "runtime/model/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/base/random.h"

namespace mlk::rt {
namespace {

constexpr std::uint64_t random_stream = 0x73616d706c65;  // "sample": differs from the streams of the weights

std::string escaped(unsigned char byte) {
  if (byte == '\n') return "\\n";
  if (byte == '\t') return "\\t";
  if (byte == '"' || byte == '\\') return {'\\', static_cast<char>(byte)};
  if (byte >= ' ' && byte < 0x7f) return {static_cast<char>(byte)};
  char text[5];
  std::snprintf(text, sizeof text, "\\x%02x", byte);
  return text;
}

}  // namespace

int draw_token(std::span<const float> logits, double temperature, float random) {
  const auto largest = std::ranges::max_element(logits);
  if (temperature == 0) return static_cast<int>(largest - logits.begin());
  std::vector<double> sums;  // of the weights up to each token
  double sum = 0;
  for (const float logit : logits)
    sums.push_back(sum +=
                   std::exp((static_cast<double>(logit) - static_cast<double>(*largest)) / temperature));
  const auto drawn = std::ranges::upper_bound(sums, static_cast<double>(random) * sum);
  return static_cast<int>(std::min(drawn, sums.end() - 1) - sums.begin());
}

std::vector<std::int32_t> sample_tokens(Gpt& model, std::int32_t begin, const SampleConfig& config,
                                        std::uint64_t seed, const std::function<bool()>& stop) {
  const auto context = static_cast<std::size_t>(model.context());
  kernels::Buffer<std::int32_t> tokens = model.ops().allocate<std::int32_t>(context);
  std::vector<std::int32_t> all{begin}, window(context);
  const auto wanted = static_cast<std::size_t>(config.tokens);
  while (all.size() <= wanted && !stop()) {
    const std::size_t known = std::min(all.size(), context);
    // No token depends on the tokens after it, so the rest of the window may hold anything.
    std::copy(all.end() - static_cast<std::ptrdiff_t>(known), all.end(), window.begin());
    model.ops().write_tokens(window, tokens);
    const auto logits = model.logits({{}, {}, 1, tokens}, static_cast<int>(known) - 1, 1);
    all.push_back(draw_token(logits, config.temperature, uniform(seed, random_stream, all.size())));
  }
  all.erase(all.begin());
  return all;
}

std::int32_t first_token(const DataConfig& data) {
  constexpr std::int32_t end_of_text = 50256;
  if (data.format == DataFormat::text) return '\n';
  return data.vocabulary > end_of_text ? end_of_text : 0;
}

std::string shown_tokens(std::span<const std::int32_t> tokens, DataFormat format) {
  std::string text;
  if (format == DataFormat::text) {
    for (const std::int32_t token : tokens) text += escaped(static_cast<unsigned char>(token));
    return "\"" + text + "\"";
  }
  for (const std::int32_t token : tokens) text += (text.empty() ? "" : " ") + std::to_string(token);
  return text;
}

}  // namespace mlk::rt
