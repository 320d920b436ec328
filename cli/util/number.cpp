#include "cli/util/number.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "cli/util/text.h"

namespace mlk {
namespace {

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether the text is digits, perhaps with a point and an exponent.
bool is_decimal(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t from = at;
    while (at < text.size() && is_decimal_digit(text[at])) ++at;
    return at - from;
  };
  std::size_t count = digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    count += digits();
  }
  if (count == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

}  // namespace

std::optional<double> number_of_word(std::string_view word) {
  const bool negative = word.starts_with('-');
  const std::string_view size = word.substr(negative || word.starts_with('+') ? 1 : 0);
  const std::string lower = lower_case(std::string(size.substr(0, 9)));
  if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (lower == "inf" || lower == "infinity") {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return negative ? -infinity : infinity;
  }
  // Calls strtod because the standard library of macOS has no from_chars for floating point.
  return is_decimal(size) ? std::optional(std::strtod(std::string(word).c_str(), nullptr)) : std::nullopt;
}

std::optional<double> number_beside_signs(std::string_view text) {
  if (const std::optional<double> whole = number_of_word(text)) return whole;
  const auto begins = [](char c) {
    return is_decimal_digit(c) || is_letter(c) || std::string_view("+-.").find(c) != std::string_view::npos;
  };
  while (!text.empty() && !begins(text.front())) text.remove_prefix(1);
  while (!text.empty() && !is_decimal_digit(text.back()) && !is_letter(text.back())) text.remove_suffix(1);
  return number_of_word(text);
}

int parse_int(std::string_view text, int otherwise) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

std::string word_of_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return "";
}

}  // namespace mlk
