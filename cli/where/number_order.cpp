#include "cli/where/number_order.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <utility>

#include "cli/util/number.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

std::partial_ordering exact_order(double a, double b) { return a <=> b; }

std::partial_ordering exact_order(std::integral auto a, std::integral auto b) {
  if (std::cmp_equal(a, b)) return std::partial_ordering::equivalent;
  return std::cmp_less(a, b) ? std::partial_ordering::less : std::partial_ordering::greater;
}

template <std::integral Whole>
std::partial_ordering exact_order(Whole a, double b) {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  constexpr bool is_signed = std::is_signed_v<Whole>;
  if (b >= (is_signed ? 0x1p63 : 0x1p64)) return std::partial_ordering::less;
  if (b < (is_signed ? -0x1p63 : 0)) return std::partial_ordering::greater;
  const double below = std::floor(b);
  const std::partial_ordering order = exact_order(a, static_cast<Whole>(below));
  return order == 0 && b > below ? std::partial_ordering::less : order;
}

std::partial_ordering exact_order(double a, std::integral auto b) { return 0 <=> exact_order(b, a); }

template <typename Then>
std::partial_ordering with_number_of(const json& value, const Then& then) {
  if (value.is_number_float()) return then(value.get<double>());
  if (value.is_number_unsigned()) return then(value.get<std::uint64_t>());
  return then(value.get<std::int64_t>());
}

template <std::integral Whole>
std::optional<json> whole_number_in(std::string_view text) {
  Whole number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::partial_ordering order_of_numbers(const json& a, const json& b) {
  return with_number_of(a,
                        [&](auto x) { return with_number_of(b, [&](auto y) { return exact_order(x, y); }); });
}

bool are_equal(const json& a, const json& b) {
  if (a.is_number() && b.is_number()) return order_of_numbers(a, b) == 0;
  if (a.is_array() && b.is_array()) return std::equal(a.begin(), a.end(), b.begin(), b.end(), are_equal);
  if (!a.is_object() || !b.is_object() || a.size() != b.size()) return a == b;
  for (const auto& [key, value] : a.items()) {
    if (!b.contains(key) || !are_equal(value, b[key])) return false;
  }
  return true;
}

std::optional<json> number_in(std::string_view text) {
  const std::optional<double> number = number_of_word(text);
  if (!number) return std::nullopt;
  const std::string_view unsigned_text = text.substr(text.starts_with('+') ? 1 : 0);
  if (std::optional<json> whole = whole_number_in<std::int64_t>(unsigned_text)) return whole;
  if (std::optional<json> whole = whole_number_in<std::uint64_t>(unsigned_text)) return whole;
  return *number;
}

}  // namespace mlk::sweeps
