#include "cli/run/facts/indexes.h"

#include <charconv>

#include <fmt/format.h>

#include "cli/util/text.h"

namespace mlk {

int parse_int(std::string_view text, int otherwise) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

std::string index_list(const std::vector<int>& sorted) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t j = i;
    while (j + 1 < sorted.size() && sorted[j + 1] == sorted[j] + 1) ++j;
    parts.push_back(i == j ? std::to_string(sorted[i]) : fmt::format("{}-{}", sorted[i], sorted[j]));
    i = j + 1;
  }
  return join(parts, ",");
}

std::set<int> parse_indexes(std::string_view text) {
  std::set<int> numbers;
  for (const std::string& part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    const int first = parse_int(std::string_view(part).substr(0, dash), -1);
    const int last =
        dash == std::string::npos ? first : parse_int(std::string_view(part).substr(dash + 1), -1);
    if (first < 0 || last < first || last >= most_ranks) continue;
    for (int number = first; number <= last; ++number) numbers.insert(number);
  }
  return numbers;
}

int number_of_index(std::string_view list, int index) {
  int before = 0;
  for (const std::string& part : split(list, ',')) {
    const std::size_t dash = part.find('-');
    const int first = parse_int(std::string_view(part).substr(0, dash), -1);
    const int last =
        dash == std::string::npos ? first : parse_int(std::string_view(part).substr(dash + 1), -1);
    if (first < 0 || last < first || last >= most_ranks) continue;
    if (index - before <= last - first) return first + index - before;
    before += last - first + 1;
  }
  return index;
}

}  // namespace mlk
