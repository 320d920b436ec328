// The tokens of an expression (expression.h). Pure.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/yaml/problems.h"

namespace mlk::sweeps {

inline constexpr std::size_t longest_expression = 4096;  // bytes

struct Token {
  enum class Kind { word, text, sign, end };  // a `text` stands in quotes
  Kind kind = Kind::end;
  std::string text;  // without the quotes, with escapes decoded
  Place place;
};

// Returns all tokens, then a token `end`, whose place is after the last token. Throws Error{usage} for a text
// that is too long, is not UTF-8, or has an unknown sign or an open quote.
std::vector<Token> tokens_of(const std::shared_ptr<const Source>& source);

// Throws Error{usage} with `what`, with the place, and with an example as the hint.
[[noreturn]] void refuse(const Place& place, const std::string& what);

// Whether a name may be written without quotes.
bool is_plain_name(std::string_view text);

}  // namespace mlk::sweeps
