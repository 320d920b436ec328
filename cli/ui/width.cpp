#include "cli/ui/width.h"

#include <sys/ioctl.h>

#include "cli/util/text.h"
#include "cli/util/unicode.h"

namespace mlk::ui {
namespace {

std::size_t columns_of(char32_t code) {
  const auto in = [code](char32_t low, char32_t high) { return code >= low && code <= high; };
  if (code < 0x20 || in(0x300, 0x36f) || in(0x200b, 0x200f) || in(0xfe00, 0xfe0f)) return 0;
  const bool wide = in(0x1100, 0x115f) || in(0x2e80, 0xa4cf) || in(0xac00, 0xd7a3) || in(0xf900, 0xfaff) ||
                    in(0xfe30, 0xfe6f) || in(0xff00, 0xff60) || in(0xffe0, 0xffe6) || in(0x1f300, 0x1faff) ||
                    in(0x20000, 0x3fffd);
  return wide ? 2 : 1;
}

}  // namespace

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character symbol = first_character(text.substr(at));
    width += columns_of(symbol.code);
    at += symbol.bytes;
  }
  return width;
}

std::string fit(std::string_view text, std::size_t width, bool ascii) {
  if (width_of(text) <= width) return std::string(text);
  if (width == 0) return "";
  std::size_t used = 0, at = 0;
  while (at < text.size()) {
    const Character symbol = first_character(text.substr(at));
    if (used + columns_of(symbol.code) > width - 1) break;
    used += columns_of(symbol.code);
    at += symbol.bytes;
  }
  return std::string(text.substr(0, at)) + (ascii ? "." : "…");
}

std::string pad(std::string_view text, std::size_t width) {
  const std::size_t own = width_of(text);
  return std::string(text) + std::string(own < width ? width - own : 0, ' ');
}

std::vector<std::string> fold(const std::vector<std::string>& parts, std::string_view separator,
                              std::size_t width) {
  if (width == 0) return {join(parts, separator)};
  std::vector<std::string> lines{""};
  for (const std::string& part : parts) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = part;
    } else if (width_of(line) + separator.size() + width_of(part) <= width) {
      line.append(separator).append(part);
    } else {
      lines.push_back(part);
    }
  }
  return lines;
}

std::size_t terminal_width(int fd, std::size_t otherwise) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

}  // namespace mlk::ui
