#include "cli/util/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <system_error>

#include <fmt/format.h>

#include "cli/util/unicode.h"

namespace mlk {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  std::size_t start = 0;
  while (true) {
    const std::size_t end = text.find(separator, start);
    parts.emplace_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - ('a' - 'A')) : c; });
  return text;
}

std::string as_variable_name(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (c == '-') c = '_';
  }
  return text;
}

std::string join_or(const std::vector<std::string>& choices) {
  if (choices.size() < 2) return join(choices, "");
  return join({choices.begin(), choices.end() - 1}, ", ") + " or " + choices.back();
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) out += separator;
    out += part;
  }
  return out;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string replaced(std::string_view text, const std::map<char, std::string_view>& by) {
  std::string out;
  for (const char c : text) {
    const auto other = by.find(c);
    out += other == by.end() ? std::string_view(&c, 1) : other->second;
  }
  return out;
}

std::string shell_word(std::string_view text) {
  const auto plain = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c >= 0x80 ||
           std::string_view("%+,-./:=@_").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

bool is_label(std::string_view text) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= 63 && plain(text.front()) && plain(text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return plain(c) || c == '-'; });
}

namespace {

// The restricted Damerau-Levenshtein distance. A swap of two neighbours, the most common typing mistake, has
// distance 1.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 64;  // a longer word is no misspelt keyword
  if (word.size() > longest) return "";
  std::string best;
  std::size_t best_distance = word.size() < 4 ? 2 : 3;  // the smallest distance that is too far
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

std::string_view cut(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

std::string_view cut_front(std::string_view text, std::size_t bytes) {
  return text.size() <= bytes ? text : text.substr(cut(text, text.size() - bytes).size());
}

std::size_t color_sequence(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.substr(0, longest_color_sequence).find_first_not_of("0123456789;:", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character read = first_character(text);
    const bool blank = read.code == '\n' || read.code == '\t';
    if (!read.valid || (controls_terminal(read.code) && !blank)) {
      out += '?';
    } else {
      out += text.substr(0, read.bytes);
    }
    text.remove_prefix(read.bytes);
  }
  return out;
}

std::string printable_line(std::string_view text) {
  std::string line = printable(text);
  std::replace_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return line;
}

std::string escape_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character read = first_character(text);
    if (read.valid && controls_terminal(read.code) && read.code != '\n') {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(read.code));
    } else {
      out += text.substr(0, read.bytes);
    }
    text.remove_prefix(read.bytes);
  }
  return out;
}

std::string percent_decode(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view digits = text.front() == '%' ? text.substr(1, 2) : "";
    unsigned char byte = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    const bool is_escape = error == std::errc() && end == digits.data() + 2;
    out += is_escape ? static_cast<char>(byte) : text.front();
    text.remove_prefix(is_escape ? 3 : 1);
  }
  return out;
}

std::string human_size(std::uint64_t bytes) {
  constexpr std::uint64_t kib = 1 << 10, mib = 1 << 20;
  if (bytes < mib) return fmt::format("{} KiB", (bytes + kib - 1) / kib);
  return fmt::format("{:.1f} MiB", std::ceil(static_cast<double>(bytes) * 10 / mib) / 10);
}

}  // namespace mlk
