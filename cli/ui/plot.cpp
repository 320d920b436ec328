#include "cli/ui/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "cli/ui/plot_scale.h"
#include "cli/ui/width.h"
#include "cli/util/text.h"

namespace mlk::ui {
namespace {

// The dots of one character, which is a braille pattern of Unicode.
constexpr std::size_t dots_across = 2, dots_down = 4;
constexpr std::size_t most_series = 26;

std::string without_end_blanks(const std::string& line) {
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

// Dots in rows of characters. Each character has the set of its dots, and the number of points in it.
class DotCanvas {
 public:
  DotCanvas(std::size_t columns, std::size_t rows)
      : columns_(columns), rows_(rows), dots_(columns * rows), counts_(columns * rows) {}

  // How many dots the canvas has across and down. draw() counts dots from the top left.
  std::size_t across() const { return columns_ * dots_across; }
  std::size_t down() const { return rows_ * dots_down; }

  void draw(std::size_t x, std::size_t y) {
    constexpr std::uint8_t bits[dots_down][dots_across] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const std::size_t cell = y / dots_down * columns_ + x / dots_across;
    dots_[cell] |= bits[y % dots_down][x % dots_across];
    ++counts_[cell];
  }

  std::uint8_t dots(std::size_t column, std::size_t row) const { return dots_[row * columns_ + column]; }
  std::size_t count(std::size_t column, std::size_t row) const { return counts_[row * columns_ + column]; }

 private:
  std::size_t columns_, rows_;
  std::vector<std::uint8_t> dots_;
  std::vector<std::size_t> counts_;
};

// The braille character at U+2800 + `dots`, which has one bit for each dot.
std::string braille(std::uint8_t dots) {
  if (dots == 0) return " ";
  return {'\xe2', static_cast<char>(0xa0 | dots >> 6), static_cast<char>(0x80 | (dots & 0x3f))};
}

std::size_t nearest_index(double share, std::size_t count) {
  return static_cast<std::size_t>(std::lround(share * static_cast<double>(count - 1)));
}

struct Tick {
  std::size_t at = 0;  // column or row of the frame
  std::string text;
};

bool has_place(const PlotPoints::value_type& point, const PlotOptions& options) {
  const auto count = static_cast<double>(options.categories.size());
  const bool in_category = count == 0 || (point.first >= 0 && point.first < count);
  return in_category && PlotScale::has_place(point.first, options.x.logarithmic && count == 0) &&
         PlotScale::has_place(point.second, options.y.logarithmic);
}

std::vector<double> values_of(const PlotPoints& points, double (*value)(const PlotPoints::value_type&)) {
  std::vector<double> values;
  for (const auto& point : points) values.push_back(value(point));
  return values;
}

// The frame of a picture, and the places of points in it.
class Frame {
 public:
  Frame(const PlotPoints& points, const PlotOptions& options)
      : options_(options),
        x_(values_of(points, [](const auto& point) { return point.first; }), options.x.logarithmic),
        y_(values_of(points, [](const auto& point) { return point.second; }), options.y.logarithmic),
        rows_(std::clamp<std::size_t>(options.height, 2, 100)) {
    const std::size_t width = std::clamp<std::size_t>(options.width, 24, 400);
    for (const auto& [value, text] : y_.ticks(std::clamp<std::size_t>(rows_ / 2, 2, 6))) {
      y_ticks_.push_back({nearest_index(1 - y_.share(value), rows_ * dots_down) / dots_down, text});
      gutter_ = std::max(gutter_, text.size());
    }
    columns_ = width - gutter_ - 2;  // above 0, because the text of a tick has at most 15 columns
    set_x_ticks();
  }

  DotCanvas canvas() const { return {columns_, rows_}; }

  // The place of a point, counted in dots of the canvas. The point must have a place on both axes.
  std::pair<std::size_t, std::size_t> place_of(const std::pair<double, double>& point) const {
    return {nearest_index(x_share(point.first), columns_ * dots_across),
            nearest_index(1 - y_.share(point.second), rows_ * dots_down)};
  }

  // Returns the lines of the picture. `cell` returns the text at a column and row.
  template <typename Cell>
  std::vector<std::string> drawn(const Cell& cell) const {
    std::vector<std::string> out;
    if (!options_.y.label.empty())
      out.push_back(fit(printable_line(options_.y.label), gutter_ + 2 + columns_, options_.ascii));
    for (std::size_t row = 0; row < rows_; ++row) {
      std::string line = gutter_of(row);
      for (std::size_t column = 0; column < columns_; ++column) line += cell(column, row);
      out.push_back(without_end_blanks(line));
    }
    out.push_back(axis());
    out.push_back(x_texts());
    if (!options_.x.label.empty()) {
      const std::string label = fit(printable_line(options_.x.label), columns_, options_.ascii);
      out.push_back(std::string(gutter_ + 2 + (columns_ - width_of(label)) / 2, ' ') + label);
    }
    return out;
  }

 private:
  double x_share(double value) const {
    if (options_.categories.empty()) return x_.share(value);
    return (std::floor(value) + 0.5) / static_cast<double>(options_.categories.size());
  }

  void add_x_tick(double value, const std::string& text) {
    x_ticks_.push_back({nearest_index(x_share(value), columns_ * dots_across) / dots_across, text});
  }

  void set_x_ticks() {
    constexpr std::size_t columns_of_tick = 12;
    if (options_.categories.empty()) {
      for (const auto& [value, text] : x_.ticks(std::clamp<std::size_t>(columns_ / columns_of_tick, 2, 8)))
        add_x_tick(value, text);
      return;
    }
    const std::size_t count = options_.categories.size();
    const std::size_t each = std::max<std::size_t>(columns_ / count, 4) - 1;
    for (std::size_t i = 0; i < count; ++i)
      add_x_tick(static_cast<double>(i), fit(printable_line(options_.categories[i]), each, options_.ascii));
  }

  std::string gutter_of(std::size_t row) const {
    for (const Tick& tick : y_ticks_) {
      if (tick.at != row) continue;
      return std::string(gutter_ - std::min(gutter_, tick.text.size()), ' ') + tick.text +
             (options_.ascii ? " +" : " ┤");
    }
    return std::string(gutter_, ' ') + (options_.ascii ? " |" : " │");
  }

  std::string axis() const {
    std::string line = std::string(gutter_, ' ') + (options_.ascii ? " +" : " └");
    for (std::size_t column = 0; column < columns_; ++column) {
      const bool ticked =
          std::any_of(x_ticks_.begin(), x_ticks_.end(), [&](const Tick& tick) { return tick.at == column; });
      line += ticked ? (options_.ascii ? "+" : "┬") : (options_.ascii ? "-" : "─");
    }
    return line;
  }

  // The text of each tick, centred on the tick. Leaves out a text that would touch the previous text.
  std::string x_texts() const {
    const std::size_t before = gutter_ + 2;
    std::string line(before, ' ');
    std::size_t used = 0;  // columns of the frame
    for (const Tick& tick : x_ticks_) {
      const std::size_t width = width_of(tick.text);
      if (width > columns_) continue;
      const std::size_t start = std::min(tick.at - std::min(tick.at, width / 2), columns_ - width);
      if (used > 0 && start < used + 1) continue;
      line += std::string(start - used, ' ') + tick.text;
      used = start + width;
    }
    return without_end_blanks(line);
  }

  const PlotOptions& options_;
  PlotScale x_, y_;
  std::size_t rows_, columns_ = 0, gutter_ = 0;
  std::vector<Tick> x_ticks_, y_ticks_;
};

// Draws the dots on the line between two places, without the first dot.
void draw_line(DotCanvas& canvas, std::pair<std::size_t, std::size_t> from,
               std::pair<std::size_t, std::size_t> to) {
  const double x = static_cast<double>(to.first) - static_cast<double>(from.first);
  const double y = static_cast<double>(to.second) - static_cast<double>(from.second);
  const double steps = std::max(std::abs(x), std::abs(y));
  for (int step = 1; step <= steps; ++step) {
    canvas.draw(static_cast<std::size_t>(std::lround(static_cast<double>(from.first) + x * step / steps)),
                static_cast<std::size_t>(std::lround(static_cast<double>(from.second) + y * step / steps)));
  }
}

DotCanvas curve_of(const PlotPoints& points, const Frame& frame, const PlotOptions& options) {
  DotCanvas canvas = frame.canvas();
  const std::pair<double, double>* last = nullptr;
  for (const auto& point : points) {
    if (!has_place(point, options)) {
      last = nullptr;
      continue;
    }
    const auto place = frame.place_of(point);
    if (last == nullptr) {
      canvas.draw(place.first, place.second);
    } else {
      draw_line(canvas, frame.place_of(*last), place);
    }
    last = &point;
  }
  return canvas;
}

Color color_of_series(std::size_t index) {
  constexpr std::array colors{Color::cyan,  Color::yellow, Color::magenta,
                              Color::green, Color::blue,   Color::red};
  return colors[index % colors.size()];
}

char letter_of_series(std::size_t index) { return static_cast<char>('a' + index); }

// The text at a column and row. With `dotted`: the dots of all curves at this place, in the colour of the
// first of these curves. Otherwise: the letter of the curve at this place, or '*' for several curves.
std::string cell_of(const std::vector<DotCanvas>& curves, std::size_t column, std::size_t row, bool dotted,
                    const Style& style) {
  std::uint8_t dots = 0;
  std::size_t first = 0, count = 0;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::uint8_t own = curves[i].dots(column, row);
    if (own == 0) continue;
    if (count++ == 0) first = i;
    dots |= own;
  }
  if (count == 0) return " ";
  if (dotted) return style.paint(braille(dots), color_of_series(first));
  return count > 1 ? "*" : style.paint(std::string(1, letter_of_series(first)), color_of_series(first));
}

// Returns the legend, such as "a first  b second", in as many lines as needed.
std::vector<std::string> legend_of(const std::vector<PlotSeries>& series, const PlotOptions& options,
                                   bool dotted, const Style& style) {
  const std::size_t width = std::clamp<std::size_t>(options.width, 24, 400);
  std::vector<std::string> out;
  std::string line;
  std::size_t used = 0;
  const auto add = [&](const std::string& mark, Color color, const std::string& text) {
    const std::string name = fit(printable_line(text), width - 2 - width_of(mark), options.ascii);
    const std::size_t own = width_of(mark) + (mark.empty() ? 0 : 1) + width_of(name);
    if (used > 0 && used + 2 + own > width) {
      out.push_back(line);
      line.clear();
      used = 0;
    }
    if (used > 0) line += "  ";
    used += own + (used > 0 ? 2 : 0);
    line += style.paint(mark, color) + (mark.empty() ? "" : " ") + name;
  };
  for (std::size_t i = 0; i < std::min(series.size(), most_series); ++i)
    add(dotted ? "━" : std::string(1, letter_of_series(i)), color_of_series(i), series[i].name);
  if (series.size() > most_series)
    add("", Color::none, "and " + std::to_string(series.size() - most_series) + " more");
  if (!line.empty()) out.push_back(line);
  return out;
}

PlotPoints with_place(const PlotPoints& points, const PlotOptions& options) {
  PlotPoints out;
  std::copy_if(points.begin(), points.end(), std::back_inserter(out),
               [&](const auto& point) { return has_place(point, options); });
  return out;
}

}  // namespace

std::vector<std::string> scatter(const PlotPoints& points, const PlotOptions& options) {
  const PlotPoints placed = with_place(points, options);
  if (placed.empty()) return {};
  const Frame frame(placed, options);
  DotCanvas canvas = frame.canvas();
  for (const auto& point : placed) {
    const auto [x, y] = frame.place_of(point);
    canvas.draw(x, y);
  }
  return frame.drawn([&](std::size_t column, std::size_t row) {
    const std::size_t count = canvas.count(column, row);
    if (!options.ascii) return braille(canvas.dots(column, row));
    return std::string(count == 0 ? " " : count == 1 ? "." : count == 2 ? ":" : "#");
  });
}

std::vector<std::string> lines(const std::vector<PlotSeries>& series, const PlotOptions& options,
                               const Style& style) {
  PlotPoints all;
  const std::size_t drawn = std::min(series.size(), most_series);
  for (std::size_t i = 0; i < drawn; ++i) {
    const PlotPoints placed = with_place(series[i].points, options);
    all.insert(all.end(), placed.begin(), placed.end());
  }
  if (all.empty()) return {};
  const Frame frame(all, options);
  std::vector<DotCanvas> curves;
  for (std::size_t i = 0; i < drawn; ++i) curves.push_back(curve_of(series[i].points, frame, options));
  const bool dotted = style.colored() && !options.ascii;
  std::vector<std::string> out = frame.drawn(
      [&](std::size_t column, std::size_t row) { return cell_of(curves, column, row, dotted, style); });
  const std::vector<std::string> legend = legend_of(series, options, dotted, style);
  out.insert(out.end(), legend.begin(), legend.end());
  return out;
}

}  // namespace mlk::ui
