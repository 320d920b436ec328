// What programs print, as a terminal would leave it: the one place that takes escape sequences, progress bars
// and control characters out of a log, a reason, a termination message. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mlk {

enum class Colors { kept, removed };

// One line, without its newline. What is written over something (after a carriage return, backspaces, or a
// sequence that moves the cursor or erases) replaces it and what followed it. Escape sequences are removed
// whole, but colours (SGR) may be kept; they are reset at the end. Other control characters and bytes that
// are not UTF-8 become '?'. The result is unchanged by another call.
std::string program_line(std::string_view line, Colors colors);

// Several lines, without colours. A line that ends with the cursor moved up is replaced by the next one, as
// bars one below the other are.
std::string program_text(std::string_view text);

}  // namespace mlk
