// The width of text on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mlk::ui {

// The columns of UTF-8 text. A wide character (East Asian, emoji) takes two columns, and a combining
// character takes no column. Colour sequences are not recognised.
std::size_t width_of(std::string_view text);

// Cuts the text to at most `width` columns. A text that was cut ends with "…", or with "." if `ascii` is
// true.
std::string fit(std::string_view text, std::size_t width, bool ascii = false);

// Adds blanks on the right until the text has `width` columns.
std::string pad(std::string_view text, std::size_t width);

// Joins parts by the separator into lines of at most `width` columns, without splitting a part. A part that
// is longer gets its own line. If `width` is 0, all parts are in one line.
std::vector<std::string> fold(const std::vector<std::string>& parts, std::string_view separator,
                              std::size_t width);

// The width of the terminal of this file descriptor; `otherwise` if there is no terminal or no known width.
std::size_t terminal_width(int fd, std::size_t otherwise = 80);

}  // namespace mlk::ui
