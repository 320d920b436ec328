#include "cli/util/surrogate_pairs.h"

#include <charconv>

namespace mlk {
namespace {

// A pair \uHHHH\uLLLL is hidden as \0HHHH, then `middle`, then LLLL. YAML can have the bytes of `middle` only
// as escapes. Only the parser recognises comments, block scalars and quotes, and it turns \0 into a zero byte
// only in double quotes. So after parsing, a zero byte shows that the pair is one character.
constexpr std::string_view middle = "\x01\x01";
constexpr std::size_t hex_digits = 4, pair_length = 2 * (2 + hex_digits);

// Whether the text begins with the four hex digits of a number from `first` to `first` + 0x3ff, which is a
// half of a pair. Sets `out` to this number.
bool is_half(std::string_view text, unsigned first, unsigned& out) {
  if (text.size() < hex_digits) return false;
  text = text.substr(0, hex_digits);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, 16);
  return error == std::errc() && end == text.data() + text.size() && out >= first && out <= first + 0x3ff;
}

bool is_high(std::string_view text, unsigned& out) { return is_half(text, 0xd800, out); }
bool is_low(std::string_view text, unsigned& out) { return is_half(text, 0xdc00, out); }

bool begins_pair(std::string_view text) {
  unsigned high = 0, low = 0;
  return text.size() >= pair_length && text.starts_with("\\u") && is_high(text.substr(2), high) &&
         text.substr(2 + hex_digits).starts_with("\\u") && is_low(text.substr(4 + hex_digits), low);
}

std::string utf8(unsigned high, unsigned low) {
  const unsigned code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
  return {static_cast<char>(0xf0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 0x3f)),
          static_cast<char>(0x80 | (code >> 6 & 0x3f)), static_cast<char>(0x80 | (code & 0x3f))};
}

}  // namespace

std::string hide_surrogate_pairs(std::string_view yaml) {
  std::string out(yaml);
  for (std::size_t at = 0; (at = out.find('\\', at)) != std::string::npos;) {
    if (!begins_pair(std::string_view(out).substr(at))) {
      at += 2;  // skips "\\" as a whole, since the text after it is no escape
      continue;
    }
    out[at + 1] = '0';
    out.replace(at + 2 + hex_digits, middle.size(), middle);
    at += pair_length;
  }
  return out;
}

std::string show_surrogate_pairs(std::string scalar) {
  for (std::size_t at = 0; (at = scalar.find(middle, at)) != std::string::npos;) {
    unsigned high = 0, low = 0;
    const std::string_view all = scalar;
    const bool whole = at > hex_digits && is_high(all.substr(at - hex_digits), high) &&
                       is_low(all.substr(at + middle.size()), low);
    const std::size_t begin = whole ? at - hex_digits - 1 : at;
    if (whole && scalar[begin] == '\0') {
      scalar.replace(begin, 1 + 2 * hex_digits + middle.size(), utf8(high, low));
      at = begin + 4;
    } else if (whole && begin > 0 && all.substr(begin - 1, 2) == "\\0") {
      scalar[begin] = 'u';
      scalar.replace(at, middle.size(), "\\u");
    } else {
      at += 1;  // the text itself has these bytes, written as escapes
    }
  }
  return scalar;
}

}  // namespace mlk
