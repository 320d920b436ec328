// Patterns that users write: regular expressions in RE2's syntax, which has no look-ahead, no look-behind and
// no back references. So for every pattern, the time of a search is linear in the length of the text.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace mlk {

inline constexpr std::size_t longest_pattern = 256;  // bytes

enum class LetterCase { matters, is_ignored };

// Immutable, cheap to copy, and safe for several threads.
class Pattern {
 public:
  // Throws Error{usage}: "the pattern '(a' is not valid: missing ): (a".
  explicit Pattern(const std::string& text, LetterCase letter_case = LetterCase::matters);

  bool is_found_in(std::string_view text) const;

  // Returns the text of the first group in the first match of the pattern. The text is empty if the group is
  // not part of the match. Returns nullopt if the pattern is not found, or has no group.
  std::optional<std::string> first_group_in(std::string_view text) const;

 private:
  std::shared_ptr<const re2::RE2> compiled_;
};

// Why the text is no pattern, as words that follow "the pattern ": "is empty", "is not valid: missing ): (a".
// Empty if the text is a pattern.
std::string why_no_pattern(const std::string& text);

// How many groups in parentheses a valid pattern has.
int groups_in_pattern(const std::string& text);

}  // namespace mlk
