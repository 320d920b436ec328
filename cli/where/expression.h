// The expressions of --where, which select runs and trials. Pure.
//
//   lr < 0.01 && state == Succeeded
//   (optimizer in [sgd, adam] or hidden == [128,128]) and not accuracy < 0.9
//
// Comparisons: == != < <= > >=, `in [a, b]`, `not in [a, b]`. They have a name on the left and a value on the
// right. The comparison `=~ 'pattern'` has a pattern (cli/util/pattern.h) on the right.
// Comparisons are joined by && (and), || (or), ! (not) and parentheses; `and` binds more tightly than `or`.
// Names: paths of parameters, or the last words of such paths; metrics; fields. Quotes allow any name.
// Values: numbers, "text" as in JSON, 'text' without escapes ('' means one quote), lists, maps, and bare
// words, which mean the same as in the experiment file: true is true, 5 is a number, sgd is text. null means
// "no value". nan and inf are numbers, even if a trial has them as words.
//
// Rules for the truth of a comparison:
// - If a trial lacks the value (absent or null), only `== null` and `in [null]` are true. Every other
//   comparison is false, even `!=`, so that no user deletes trials whose value is unknown. `not lr == 1` is
//   true for such a trial.
// - Numbers compare by value (1 and 1.0 are equal). Whole numbers of up to 64 bits compare exactly. Text
//   compares byte by byte. Lists and maps may be equal or unequal, but have no order.
// - If the whole text of a value is a number, as it can be in `env:`, it compares with a number by value,
//   as in LR > 0.5. But if the value of a trial is a number, it is not equal to text in quotes, such as
//   '0.5'.
// - Other values of different types are unequal, and neither is less than the other.
// - The text of `state` and of `phase` compares without case: state == succeeded.
// - `name =~ '^digits'` is true if the value is text in which the pattern is found.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/util/pattern.h"
#include "cli/where/expression_tokens.h"
#include "cli/yaml/problems.h"

namespace mlk::sweeps {

inline constexpr int deepest_expression = 64;  // levels of parentheses, negations, lists and maps

// Returns the value of this name in one trial; nullptr or a JSON null if the trial has no such value. The
// value must live until matches() returns.
using Lookup = std::function<const nlohmann::json*(const std::string& name)>;

// A name, and its place in the expression.
struct NameUse {
  std::string name;
  Place place;
};

struct Comparison {
  enum class Operator { equal, not_equal, less, at_most, greater, at_least, in, not_in, like };
  NameUse left;
  Operator op = Operator::equal;
  nlohmann::json value;            // for `in` and `not_in`, a list; for `like`, the text of the pattern
  std::optional<Pattern> pattern;  // for `like`
  Place value_place;
};

std::string_view sign_of(Comparison::Operator op);  // "==", "not in"

struct Expression {
  enum class Kind { all, any, negation, comparison };
  Kind kind = Kind::all;          // `all` without parts matches every trial
  std::vector<Expression> parts;  // `all` and `any` have two or more after parsing; `negation` has one
  Comparison comparison;          // of Kind::comparison

  bool matches(const Lookup& lookup) const;
  std::vector<NameUse> names() const;  // in the order of the text, with repeated names
};

// Throws Error{usage} with the place of the mistake if the text is not an expression, is longer than
// longest_expression, or is nested deeper than deepest_expression. `source_name`: the name of the text in
// messages, such as "--where".
Expression parse_expression(std::string_view text, const std::string& source_name);

// Returns the normal form. If it is not too long for the parser, parsing it gives the same expression.
std::string to_string(const Expression& expression);

// Returns the expression with every name replaced by the full name from `known`. A name may also be the part
// of a known name that follows a dot: lr means train.optimizer.lr. Throws Error{usage} with all names that
// are unknown or ambiguous.
[[nodiscard]] Expression check_names(const Expression& expression, const std::vector<std::string>& known);

// Throws Error{usage} if the expression compares `name` by `==`, `!=`, `in` or `not in` with a text that is
// not in `values`, for example a misspelt state, which no trial has.
void check_values(const Expression& expression, const std::string& name,
                  const std::vector<std::string>& values);

// Whether values of this name are durations. Users may write a duration as 90s or 2h, also as a bare word.
// The parser does not convert such text to a number.
bool is_duration(std::string_view name);

// Whether comparisons with this name ignore the case of text.
bool ignores_case(std::string_view name);

}  // namespace mlk::sweeps
