#include "cli/local/state/indexes.h"

#include <algorithm>
#include <charconv>
#include <iterator>

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
    result.insert_run(*first, *last);
  }
  return result;
}

std::string Indexes::text() const {
  std::string result;
  for (const auto& [first, last] : runs_) {
    if (!result.empty()) result += ',';
    result += std::to_string(first);
    // The Job controller separates two neighbours by a comma.
    if (last > first) result += (last == first + 1 ? "," : "-") + std::to_string(last);
  }
  return result;
}

int Indexes::first_absent(int from) const {
  const auto after = runs_.upper_bound(from);
  if (after == runs_.begin()) return from;
  return std::max(from, std::prev(after)->second + 1);
}

void Indexes::insert_run(int first, int last) {
  auto at = runs_.upper_bound(first);
  if (at != runs_.begin() && std::prev(at)->second >= first - 1) --at;
  while (at != runs_.end() && at->first <= last + 1) {  // overlaps, or is a neighbour
    first = std::min(first, at->first);
    last = std::max(last, at->second);
    size_ -= static_cast<std::size_t>(at->second - at->first + 1);
    at = runs_.erase(at);
  }
  runs_.emplace_hint(at, first, last);
  size_ += static_cast<std::size_t>(last - first + 1);
}

void Indexes::drop_from(int end) {
  while (!runs_.empty() && runs_.rbegin()->second >= end) {
    const auto run = std::prev(runs_.end());
    const int kept = std::max(end, run->first);  // from here on
    size_ -= static_cast<std::size_t>(run->second - kept + 1);
    run->second = kept - 1;
    if (kept == run->first) runs_.erase(run);
  }
}

std::size_t Indexes::size_of_common(const Indexes& other) const {
  std::size_t count = 0;
  auto a = runs_.begin(), b = other.runs_.begin();
  while (a != runs_.end() && b != other.runs_.end()) {
    const int first = std::max(a->first, b->first), last = std::min(a->second, b->second);
    if (first <= last) count += static_cast<std::size_t>(last - first + 1);
    a->second < b->second ? ++a : ++b;
  }
  return count;
}

}  // namespace mlk::local
