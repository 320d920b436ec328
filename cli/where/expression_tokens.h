// The tokens of an expression (expression.h). Pure.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/experiment/problems.h"
#include "cli/where/expression.h"

namespace mlk::sweeps {

struct Token {
  enum class Kind { word, text, sign, end };  // `text` was quoted
  Kind kind = Kind::end;
  std::string text;  // without the quotes, with escapes decoded
  Place place;
};

// All tokens, then one `end` at the place after the last one. Throws Error{usage}.
std::vector<Token> tokens_of(const std::shared_ptr<const Source>& source);

// Throws Error{usage} with the place.
[[noreturn]] void refuse(const Place& place, const std::string& what);

// Whether a name may be written without quotes.
bool is_plain_name(std::string_view text);

std::string_view sign_of(Comparison::Operator op);  // "==", "not in"

std::string lower_case(std::string text);  // of the letters a to z

}  // namespace mlk::sweeps
