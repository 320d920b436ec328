// The tokens of an expression (expression.h). Pure.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/experiment/problems.h"

namespace mlk::sweeps {

inline constexpr std::size_t longest_expression = 4096;  // bytes

struct Token {
  enum class Kind { word, text, sign, end };  // `text` was quoted
  Kind kind = Kind::end;
  std::string text;  // without the quotes, with escapes decoded
  Place place;
};

// All tokens, then one token `end` at the place after the last token. Throws Error{usage}.
std::vector<Token> tokens_of(const std::shared_ptr<const Source>& source);

// Throws Error{usage} with the place.
[[noreturn]] void refuse(const Place& place, const std::string& what);

// Whether a name may be written without quotes.
bool is_plain_name(std::string_view text);

std::string lower_case(std::string text);  // changes only the letters A to Z

}  // namespace mlk::sweeps
