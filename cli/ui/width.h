// The width of text on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mlk::ui {

// The columns of UTF-8 text: wide characters (East Asian, emoji) take two, combining ones none. Colour
// sequences are not recognised.
std::size_t width_of(std::string_view text);

// At most `width` columns; if text was cut off, the last column is "…".
std::string fit(std::string_view text, std::size_t width);

// Filled up with blanks on the right to `width` columns.
std::string pad(std::string_view text, std::size_t width);

// Of the terminal on that file descriptor; `otherwise` if it is not a terminal or does not say.
std::size_t terminal_width(int fd, std::size_t otherwise = 80);

}  // namespace mlk::ui
