#include "cli/ui/style.h"

#include <array>
#include <cstdint>

namespace mlk::ui {
namespace {

std::string escape(int code, std::string_view text) {
  return "\x1b[" + std::to_string(code) + "m" + std::string(text) + "\x1b[0m";
}

int code_of(Color color) {
  switch (color) {
    case Color::red:
      return 31;
    case Color::green:
      return 32;
    case Color::yellow:
      return 33;
    case Color::blue:
      return 34;
    case Color::magenta:
      return 35;
    case Color::cyan:
      return 36;
    case Color::gray:
      return 90;
    case Color::none:
      break;
  }
  return 0;
}

}  // namespace

std::string Style::paint(std::string_view text, Color color) const {
  if (!colored_ || color == Color::none || text.empty()) return std::string(text);
  return escape(code_of(color), text);
}

std::string Style::bold(std::string_view text) const {
  return colored_ && !text.empty() ? escape(1, text) : std::string(text);
}

Color color_of(std::string_view text) {
  constexpr std::array colors{Color::cyan, Color::green, Color::yellow, Color::magenta,
                              Color::blue};  // not red, which means trouble
  std::uint32_t hash = 2166136261u;          // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return colors[hash % colors.size()];
}

}  // namespace mlk::ui
