// UTF-8, read one character at a time, and the characters that control a terminal.
#pragma once

#include <cstddef>
#include <string_view>

namespace mlk {

struct Character {
  char32_t code = 0;      // if no character begins here: the byte itself
  std::size_t bytes = 0;  // 1 for a byte that begins no character; 0 for an empty text
  bool valid = false;
};

// The first character of the text. Overlong forms, surrogates and codes over U+10FFFF are not valid.
Character first_character(std::string_view text);

bool is_utf8(std::string_view text);

// Control characters (C0 with tab and newline, DEL, C1), bidirectional controls, and the line and paragraph
// separators. All these characters change how a terminal shows the characters around them.
bool controls_terminal(char32_t code);

}  // namespace mlk
