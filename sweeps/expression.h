// The expressions of --where: which trials are meant. Pure.
//
//   lr < 0.01 && state == Succeeded
//   (optimizer in [sgd, adam] or hidden == [128,128]) and not accuracy < 0.9
//
// Comparisons: == != < <= > >=, `in [a, b]`, `not in [a, b]`, a name on the left and a value on the right.
// They are joined by && (and), || (or), ! (not) and parentheses; `and` binds more tightly than `or`.
// Names: paths of parameters, or their last words; metrics; fields. With blanks and the like in quotes.
// Values: numbers, "text" as in JSON, 'text' as it is ('' means one quote), lists, maps, and bare words,
// which are read as the experiment file reads them: true is true, 5 is a number, sgd is text. null, nan and
// inf mean "no value", since results keep numbers that are not finite as null.
//
// What is true:
// - A trial without the value (absent, null, not finite) fulfils `name == null`, and no other comparison,
// `!=`
//   included: what is not known is not selected, and then deleted, by accident. `not lr == 1` is true for it.
// - Numbers compare by value (1 and 1.0 are equal), text byte by byte, and lists and maps only by == and !=.
// - Values of different types are unequal, and neither is less than the other.
// - The text of `state` and of `phase` compares without regard to case: state == succeeded.
// There are no patterns: std::regex takes exponential time, or all of the stack, on unlucky ones.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/experiment/problems.h"

namespace mlk::sweeps {

inline constexpr std::size_t longest_expression = 4096;  // bytes
inline constexpr int deepest_expression = 64;            // of parentheses, negations, lists and maps

// The value of that name in one trial; null when it has none. The value must live as long as matches() runs.
using Lookup = std::function<const nlohmann::json*(const std::string& name)>;

// A name, and where it stands in the expression.
struct NameUse {
  std::string name;
  Place place;
};

struct Comparison {
  enum class Operator { equal, not_equal, less, at_most, greater, at_least, in, not_in };
  NameUse left;
  Operator op = Operator::equal;
  nlohmann::json value;  // of `in` and `not_in`: a list
  Place value_place;
};

struct Expression {
  enum class Kind { all, any, negation, comparison };
  Kind kind = Kind::all;          // all of no parts: matches every trial
  std::vector<Expression> parts;  // of all and any: two or more as parsed; of a negation: one
  Comparison comparison;          // of that kind

  bool matches(const Lookup& lookup) const;
  std::vector<NameUse> names() const;  // in the order of the text, as often as they stand there
};

// `source_name` is what mistakes are told with, "--where". Throws Error{usage} with the place of the mistake:
// text that is no expression, longer than longest_expression or nested deeper than deepest_expression.
Expression parse_expression(std::string_view text, const std::string& source_name);

// In one form for each meaning: parses to the same again, unless it is longer than longest_expression.
std::string to_string(const Expression& expression);

// The same with every name as `known` has it. A name that is not among `known` may be the end of one of them,
// from a dot on: lr for train.optimizer.lr. Throws Error{usage} with all names that no trial knows, or that
// end several of them.
[[nodiscard]] Expression check_names(const Expression& expression, const std::vector<std::string>& known);

// Refuses text that `name`, as known, is compared with by ==, != or in, and that is none of `values`: a state
// that is misspelt would select nothing. Throws Error{usage} with all of them.
void check_values(const Expression& expression, const std::string& name,
                  const std::vector<std::string>& values);

// Whether values of that name are durations, which may be written 90s or 2h, as bare words too; the text
// stays text here.
bool is_duration(std::string_view name);

// Whether text of that name compares without regard to case.
bool ignores_case(std::string_view name);

}  // namespace mlk::sweeps
