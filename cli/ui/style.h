// Colours and glyphs, if the user wants them.
#pragma once

#include <string>
#include <string_view>

namespace mlk::ui {

enum class Color { none, red, green, yellow, blue, magenta, cyan, gray };

class Style {
 public:
  // `ascii`: glyphs outside of ASCII are replaced, such as "…".
  explicit Style(bool colored = false, bool ascii = false) : colored_(colored), ascii_(ascii) {}

  std::string paint(std::string_view text, Color color) const;
  std::string bold(std::string_view text) const;
  bool colored() const { return colored_; }
  bool ascii() const { return ascii_; }

 private:
  bool colored_, ascii_;
};

// `wish` is auto, always or never. `no_color` is the value of $NO_COLOR, which forbids colours if it is not
// empty.
bool wants_color(std::string_view wish, bool terminal, std::string_view no_color);

// Returns always the same colour for the same text; for the prefixes of lines.
Color color_of(std::string_view text);

}  // namespace mlk::ui
