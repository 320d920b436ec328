// How wide text is on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mlk::ui {

// Columns of UTF-8 text: wide characters (East Asian, emoji) take two, combining ones none. Colours are not
// understood.
std::size_t width_of(std::string_view text);

// At most `width` columns, the last of them "…" where text was cut off.
std::string fit(std::string_view text, std::size_t width);

// With blanks on the right up to `width` columns.
std::string pad(std::string_view text, std::size_t width);

// Of the terminal on that file descriptor; `otherwise` when it is none or does not say.
std::size_t terminal_width(int fd, std::size_t otherwise = 80);

}  // namespace mlk::ui
