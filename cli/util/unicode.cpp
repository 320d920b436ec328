#include "cli/util/unicode.h"

namespace mlk {

Character first_character(std::string_view text) {
  if (text.empty()) return {};
  const auto first = static_cast<unsigned char>(text.front());
  const Character broken{first, 1, false};
  if (first < 0x80) return {first, 1, true};
  const std::size_t bytes = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return broken;
  char32_t code = first & (0x7fu >> bytes);
  for (const char c : text.substr(1, bytes - 1)) {
    const auto next = static_cast<unsigned char>(c);
    if ((next & 0xc0) != 0x80) return broken;
    code = code << 6 | (next & 0x3fu);
  }
  const bool too_long = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (too_long || surrogate || code > 0x10ffff) return broken;
  return {code, bytes, true};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!character.valid) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

bool controls_terminal(char32_t code) {
  const auto in = [code](char32_t low, char32_t high) { return code >= low && code <= high; };
  return code < 0x20 || in(0x7f, 0x9f) || code == 0x61c || in(0x200e, 0x200f) || in(0x2028, 0x202e) ||
         in(0x2066, 0x2069);
}

}  // namespace mlk
