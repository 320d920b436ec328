// Small operations on text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mlk {

std::vector<std::string> split(std::string_view text, char separator);  // "a,,b" has three parts, "" has none
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string join_or(const std::vector<std::string>& choices);  // "a, b or c"
std::string_view trim(std::string_view text);                  // without blanks at both ends

// A copy of the text. Each character that is a key in `by` is replaced by the value of this key.
std::string replaced(std::string_view text, const std::map<char, std::string_view>& by);

// `text` as one word of a shell: in quotes if it is empty, or has a character that a shell may change.
std::string shell_word(std::string_view text);

// A label of RFC 1123, such as the name of a namespace: at most 63 of the characters a-z, 0-9 and '-', where
// the first and the last are not '-'.
bool is_label(std::string_view text);

std::string lower_case(std::string text);  // changes only the letters A to Z
std::string upper_case(std::string text);  // changes only the letters a to z
// The text as a part of the name of a variable: letters in upper case, and '_' in the place of '-'.
std::string as_variable_name(std::string text);

// Replaces each %XX, where XX are two hex digits, by the byte of this number (RFC 3986). Any other '%' stays.
std::string percent_decode(std::string_view text);

// The candidate nearest to `word` by edit distance, for "did you mean"; empty if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
// The end of a message: "; did you mean 'NEAREST'?". Empty if no candidate is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// The beginning of UTF-8 text: at most `bytes` bytes, cut between two characters.
std::string_view cut(std::string_view text, std::size_t bytes);
std::string_view cut_front(std::string_view text, std::size_t bytes);  // keeps the end of the text

// Makes text from outside safe for a terminal. Control characters (cli/util/unicode.h) become '?', but \n and
// \t stay. Each byte that is not UTF-8 also becomes '?'.
std::string printable(std::string_view text);
std::string printable_line(std::string_view text);  // printable(), with blanks in place of \n and \t

// Returns a size for people, rounded up: "3 KiB", "1.5 MiB".
std::string human_size(std::uint64_t bytes);

// The length of the sequence "ESC [ numbers m", which sets colours, at the start of the text; 0 if there is
// none.
std::size_t color_sequence(std::string_view text);
inline constexpr std::size_t longest_color_sequence = 64;

// Writes control characters except newlines as \uXXXX. In JSON and similar text, this keeps the meaning.
std::string escape_controls(std::string_view text);

}  // namespace mlk
