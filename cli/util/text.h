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

// Text from elsewhere made safe for a terminal: control characters but \n and \t become '?'.
std::string printable(std::string_view text);

}  // namespace mlk
