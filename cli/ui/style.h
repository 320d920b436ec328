// Colours, and ASCII in place of other glyphs, as the user wishes.
#pragma once

#include <string>
#include <string_view>

namespace mlk::ui {

// Each colour has the value of its parameter in the sequence "ESC [ parameter m".
enum class Color { none, red = 31, green, yellow, blue, magenta, cyan, gray = 90 };

class Style {
 public:
  // `ascii`: code that draws with this style uses only glyphs of ASCII, for example "." in place of "…".
  explicit Style(bool colored = false, bool ascii = false) : colored_(colored), ascii_(ascii) {}

  std::string paint(std::string_view text, Color color) const;
  std::string bold(std::string_view text) const;
  bool colored() const { return colored_; }
  bool ascii() const { return ascii_; }

 private:
  bool colored_, ascii_;
};

// A colour for the prefix of a line. The same text always has the same colour.
Color color_of(std::string_view text);

}  // namespace mlk::ui
