#include "cli/ui/style.h"

#include <array>
#include <cstdint>

namespace mlk::ui {
namespace {

std::string escape(int code, std::string_view text) {
  return "\x1b[" + std::to_string(code) + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace

std::string Style::paint(std::string_view text, Color color) const {
  if (!colored_ || color == Color::none || text.empty()) return std::string(text);
  return escape(static_cast<int>(color), text);
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
