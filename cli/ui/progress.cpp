#include "cli/ui/progress.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "cli/ui/width.h"
#include "cli/util/text.h"

namespace mlk::ui {
namespace {

constexpr char erase_line[] = "\r\x1b[K";

std::string repeated_text(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

// The share of `width` columns for `part` of `all`.
std::size_t columns_of(std::size_t width, std::size_t part, std::size_t all) {
  if (part == 0 || all == 0) return 0;
  if (part >= all) return width;
  return std::clamp<std::size_t>(width * part / all, 1, std::max<std::size_t>(width, 2) - 1);
}

}  // namespace

std::string bar(std::size_t width, std::size_t done, std::size_t under_way, std::size_t all, bool ascii) {
  const std::size_t full = columns_of(width, done, all);
  const std::size_t begun = std::max(columns_of(width, done + under_way, all), full);
  return repeated_text(ascii ? "#" : "█", full) + repeated_text(ascii ? "+" : "▒", begun - full) +
         repeated_text(ascii ? "." : "░", width - begun);
}

Progress::Progress(std::ostream& out, bool terminal, std::function<std::size_t()> width, bool ascii)
    : out_(out), terminal_(terminal), width_(std::move(width)), ascii_(ascii) {}

Progress::~Progress() { clear(); }

void Progress::show(const std::string& text) {
  if (!terminal_) return;
  // One column stays free, since a full line would make the terminal scroll.
  const std::size_t width = width_();
  const std::string line = fit(printable(text), width > 1 ? width - 1 : 1, ascii_);
  if (line == live_) return;
  live_ = line;
  out_ << erase_line << line << std::flush;
}

void Progress::print(const std::string& line) {
  if (!live_.empty()) out_ << erase_line;
  out_ << line << '\n' << live_ << std::flush;
}

void Progress::clear() {
  if (live_.empty()) return;
  out_ << erase_line << std::flush;
  live_.clear();
}

}  // namespace mlk::ui
