// UTF-8, read one character at a time, and the characters that steer a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mlk {

struct Character {
  char32_t code = 0;      // of a byte that begins no character: the byte
  std::size_t bytes = 0;  // 1 of such a byte; 0 of an empty text
  bool valid = false;
};

// The character that the text begins with. Forms that are too long, surrogates and what lies over U+10FFFF
// are not valid.
Character first_character(std::string_view text);

bool is_utf8(std::string_view text);

// Control characters (C0 with tab and newline, DEL, C1), bidirectional controls, and the line and paragraph
// separators: those that change what a terminal shows of the characters around them.
bool steers_terminal(char32_t code);

}  // namespace mlk
