#include "cli/util/program_text.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "cli/util/text.h"
#include "cli/util/unicode.h"

namespace mlk {
namespace {

constexpr std::size_t most_columns_moved = 200;  // limit for moves of the cursor beyond the end of a line
constexpr std::size_t longest_style = 256;       // bytes of the colours in effect
constexpr std::size_t longest_sequence = 4096;   // bytes of a title or a link; a longer one is text
constexpr std::string_view bell = "\x07", string_end = "\x1b\\", string_end_c1 = "\u009c";

// An escape sequence at the start of a text.
struct Sequence {
  std::size_t bytes = 0;
  char final = 0;  // last byte of a control sequence, such as 'K'; 0 for others
  std::string_view parameters{};
};

// A title, a link or another string for the terminal, up to BEL or ST. If the string has no end, only its
// introducer is removed, so that the rest of the line stays visible. `introducer`: its number of bytes.
Sequence string_sequence(std::string_view text, std::size_t introducer) {
  const std::string_view rest = text.substr(introducer, longest_sequence);
  std::size_t end = std::string_view::npos, size = 0;
  for (const std::string_view each : {bell, string_end, string_end_c1}) {
    if (const std::size_t at = rest.find(each); at < end) {
      end = at;
      size = each.size();
    }
  }
  return {end == std::string_view::npos ? introducer : introducer + end + size};
}

// "ESC [ parameters intermediates final". A malformed or cut sequence ends before the first byte that does
// not fit.
Sequence control_sequence(std::string_view text, std::size_t introducer) {
  std::size_t at = introducer;
  const auto skip = [&](char low, char high) {
    while (at < text.size() && at < longest_sequence && text[at] >= low && text[at] <= high) ++at;
  };
  skip('0', '?');
  const std::string_view parameters = text.substr(introducer, at - introducer);
  const std::size_t after_parameters = at;
  skip(' ', '/');
  const bool ends = at < text.size() && text[at] >= '@' && text[at] <= '~';
  if (!ends) return {at};
  return {at + 1, after_parameters == at ? text[at] : '\0', parameters};
}

// The escape sequence at the start of the text; nullopt if none begins there.
std::optional<Sequence> sequence_at(std::string_view text) {
  const Character read = first_character(text);
  if (read.valid && read.code == 0x9b) return control_sequence(text, read.bytes);
  if (read.valid && (read.code == 0x90 || read.code == 0x98 || (read.code >= 0x9d && read.code <= 0x9f)))
    return string_sequence(text, read.bytes);
  if (!text.starts_with('\x1b')) return std::nullopt;
  if (text.size() == 1) return Sequence{1};
  const char kind = text[1];
  if (kind == '[') return control_sequence(text, 2);
  if (std::string_view("]PX^_").find(kind) != std::string_view::npos) return string_sequence(text, 2);
  // The choice of a charset, such as "ESC ( B", or a sequence of two bytes, such as "ESC 7".
  std::size_t at = 1;
  while (at < text.size() && text[at] >= ' ' && text[at] <= '/') ++at;
  const bool ends = at < text.size() && text[at] >= '0' && text[at] <= '~';
  return Sequence{ends ? at + 1 : at};
}

bool is_plain_line(std::string_view line) {
  return std::all_of(line.begin(), line.end(), [](char c) { return (c >= ' ' && c < '\x7f') || c == '\t'; });
}

// The line of a terminal, its cursor, and its colours.
class Line {
 public:
  explicit Line(Colors colors) : colors_(colors) {}

  void play(std::string_view text) {
    while (!text.empty()) {
      std::size_t bytes = 1;
      if (text.front() == '\r') {
        cursor_ = 0;
      } else if (text.front() == '\b') {
        if (cursor_ > 0) --cursor_;
      } else if (const std::optional<Sequence> sequence = sequence_at(text)) {
        bytes = sequence->bytes;
        obey(*sequence, text.substr(0, bytes));
      } else if (!is_silent(text.front())) {
        if (text.front() == '\n') cursor_ = starts_.size();
        bytes = first_character(text).bytes;
        write(printable(text.substr(0, bytes)));
      }
      text.remove_prefix(bytes);
    }
  }

  bool is_left_above() const { return is_above_; }

  std::string text() && {
    if (!style_.empty()) out_ += "\x1b[0m";
    return std::move(out_);
  }

 private:
  // Characters without a width on a terminal: the bell, shifts of the charset, fill characters.
  static bool is_silent(char c) { return c == '\0' || c == '\a' || c == '\x0e' || c == '\x0f'; }

  void write(const std::string& character) {
    is_above_ = false;
    cut_at(cursor_);
    while (starts_.size() < cursor_) put(" ");
    put(character);
    cursor_ = starts_.size();
  }

  void put(const std::string& character) {
    starts_.push_back(out_.size());
    out_ += character;
  }

  // The current colours stay in effect when their text is cut off.
  void cut_at(std::size_t column) {
    if (column >= starts_.size()) return;
    out_.resize(column == 0 ? 0 : starts_[column]);
    starts_.resize(column);
    if (column > 0 && out_.find('\x1b') != std::string::npos) out_ += "\x1b[0m";
    out_ += style_;
  }

  void set_style(std::string_view sequence) {
    if (colors_ == Colors::removed) return;
    const bool resets = sequence == "\x1b[m" || sequence == "\x1b[0m";
    if (resets || style_.size() > longest_style) style_.clear();
    if (!resets) style_ += sequence;
    out_ += sequence;
  }

  void obey(const Sequence& sequence, std::string_view bytes) {
    if (sequence.final == 'm' && color_sequence(bytes) == bytes.size()) set_style(bytes);
    const std::size_t count = std::max<std::size_t>(number(sequence.parameters), 1);
    switch (sequence.final) {
      case 'A':
      case 'F':
        is_above_ = true;
        cursor_ = 0;
        return;
      case 'H':
      case 'f':
        cursor_ = 0;
        return;
      case 'G':
      case '`':
        return move_to(count - 1);
      case 'C':
      case 'a':
        return move_to(cursor_ + count);
      case 'D':
        cursor_ -= std::min(cursor_, count);
        return;
      case 'K':
      case 'J':
        return erase(number(sequence.parameters));
      default:
        return;
    }
  }

  void move_to(std::size_t column) { cursor_ = std::min(column, starts_.size() + most_columns_moved); }

  // `which`: 0 erases from the cursor to the end of the line; 2 and 3 erase the whole line. 1 should erase up
  // to the cursor; here it erases the whole line if the cursor is at the end, and otherwise nothing.
  void erase(std::size_t which) {
    if (which == 0) return cut_at(cursor_);
    if (which == 1 && cursor_ < starts_.size()) return;
    cut_at(0);
    cursor_ = 0;
  }

  // The first parameter; 0 if there is none.
  static std::size_t number(std::string_view parameters) {
    std::size_t value = 0;
    for (const char c : parameters) {
      if (c < '0' || c > '9') break;
      value = std::min<std::size_t>(value * 10 + static_cast<std::size_t>(c - '0'), 9999);
    }
    return value;
  }

  const Colors colors_;
  std::string out_;
  std::vector<std::size_t> starts_;  // where in `out_` each character begins
  std::size_t cursor_ = 0;
  std::string style_;
  bool is_above_ = false;  // the cursor was moved up, and no character was written since
};

}  // namespace

std::string program_line(std::string_view line, Colors colors) {
  if (is_plain_line(line)) return std::string(line);
  Line played(colors);
  played.play(line);
  return std::move(played).text();
}

std::string program_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const bool is_last = end == std::string_view::npos;
    Line line(Colors::removed);
    line.play(text.substr(0, end));
    text.remove_prefix(is_last ? text.size() : end + 1);
    if (line.is_left_above() && !text.empty()) continue;
    out += std::move(line).text();
    if (!is_last) out += '\n';
  }
  return out;
}

}  // namespace mlk
