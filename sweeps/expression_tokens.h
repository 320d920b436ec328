// The words and signs that an expression (expression.h) consists of. Pure.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/experiment/problems.h"
#include "sweeps/expression.h"

namespace mlk::sweeps {

struct Token {
  enum class Kind { word, text, sign, end };  // `text` stood in quotes
  Kind kind = Kind::end;
  std::string text;  // without the quotes, and with escapes read
  Place place;
};

// All of them, one `end` last, at the place behind the last one. Throws Error{usage}.
std::vector<Token> tokens_of(const std::shared_ptr<const Source>& source);

// Throws Error{usage} with the place.
[[noreturn]] void refuse(const Place& place, const std::string& what);

// Whether a name may stand without quotes.
bool is_plain_name(std::string_view text);

std::string_view sign_of(Comparison::Operator op);  // "==", "not in"

std::string lower_case(std::string text);  // of the letters a to z

}  // namespace mlk::sweeps
