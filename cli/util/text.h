// Small operations on text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mlk {

std::vector<std::string> split(std::string_view text, char separator);  // "a,,b" has three parts, "" has none
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text);  // without blanks at both ends
bool starts_with_word(std::string_view text, std::string_view word);

// `text` as one word of a shell: as it is where that is safe, else between quotes.
std::string shell_word(std::string_view text);

// A label of RFC 1123, as the names of namespaces and containers: a-z, 0-9 and inner '-', at most 63.
bool is_label(std::string_view text);

// The candidate nearest to `word` by edit distance, for "did you mean"; empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// At most `bytes` of UTF-8 text, cut between two characters.
std::string_view cut(std::string_view text, std::size_t bytes);

// Text from elsewhere made safe for a terminal: whatever steers one (cli/util/unicode.h) but \n and \t, and
// bytes that are no UTF-8, become '?' each.
std::string printable(std::string_view text);

// A line of a log, made safe likewise. Its colours (SGR sequences) stay when `colors` is set, and end with
// the line; otherwise they are left out.
std::string printable_line(std::string_view line, bool colors);

// Bytes of the sequence "ESC [ numbers m", which sets colours, that the text begins with; 0 when there is
// none.
std::size_t color_sequence(std::string_view text);
inline constexpr std::size_t longest_color_sequence = 64;

// JSON or the like, in which whatever steers a terminal, but newlines, can be written as \uXXXX.
std::string escape_controls(std::string_view text);

}  // namespace mlk
