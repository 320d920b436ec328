// The output of programs as a terminal would finally show it. Only this code removes escape sequences,
// progress bars and control characters from logs, reasons and termination messages. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mlk {

enum class Colors { kept, removed };

// One line, without its newline. Text that overwrites other text (after a carriage return, backspaces, or a
// sequence that moves the cursor or erases) replaces that text and everything after it. Escape sequences are
// removed whole, but colours (SGR) may be kept; the line then resets them at its end. NUL, BEL, SO and SI are
// removed, and tabs stay. Other control characters, bidirectional characters, and bytes that are not UTF-8
// become '?'. A second call, with the result, returns it unchanged.
std::string program_line(std::string_view line, Colors colors);

// Several lines, without colours. If a line moves the cursor up at its end, the next line replaces that line,
// as progress bars below each other do.
std::string program_text(std::string_view text);

}  // namespace mlk
