#include "cli/local/indexes.h"

#include <charconv>

#include "cli/util/text.h"

namespace mlk::local {
namespace {

std::optional<int> parse_index(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 99999)
    return std::nullopt;
  return value;
}

}  // namespace

std::optional<Indexes> Indexes::parse(std::string_view text) {
  Indexes result;
  for (const std::string& part : split(text, ',')) {
    const auto dash = part.find('-');
    const auto first = parse_index(std::string_view(part).substr(0, dash));
    const auto last = dash == part.npos ? first : parse_index(std::string_view(part).substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    for (int index = *first; index <= *last; ++index) result.insert(index);
  }
  return result;
}

std::string Indexes::text() const {
  std::string result;
  for (auto at = indexes_.begin(); at != indexes_.end();) {
    const int first = *at;
    int last = first;
    for (++at; at != indexes_.end() && *at == last + 1; ++at) last = *at;
    if (!result.empty()) result += ',';
    result += std::to_string(first);
    // The Job controller writes two neighbours with a comma.
    if (last == first + 1) result += "," + std::to_string(last);
    if (last > first + 1) result += "-" + std::to_string(last);
  }
  return result;
}

}  // namespace mlk::local
