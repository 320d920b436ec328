#include "cli/ui/progress.h"

#include <utility>

#include "cli/ui/width.h"
#include "cli/util/text.h"

namespace mlk::ui {
namespace {

constexpr char erase_line[] = "\r\x1b[K";

}  // namespace

Progress::Progress(std::ostream& out, bool terminal, std::function<std::size_t()> width)
    : out_(out), terminal_(terminal), width_(std::move(width)) {}

Progress::~Progress() { clear(); }

void Progress::show(const std::string& text) {
  if (!terminal_) return;
  // One column stays free: a full line would make the terminal scroll.
  const std::size_t width = width_();
  const std::string line = fit(printable(text), width > 1 ? width - 1 : 1);
  if (line == live_) return;
  live_ = line;
  out_ << erase_line << line << std::flush;
}

void Progress::say(const std::string& line) {
  if (!live_.empty()) out_ << erase_line;
  out_ << line << '\n' << live_ << std::flush;
}

void Progress::clear() {
  if (live_.empty()) return;
  out_ << erase_line << std::flush;
  live_.clear();
}

}  // namespace mlk::ui
