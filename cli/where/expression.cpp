#include "cli/where/expression.h"

#include <algorithm>
#include <cmath>
#include <compare>

#include "cli/util/json.h"
#include "cli/util/number.h"
#include "cli/util/text.h"
#include "cli/where/number_order.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;
using Operator = Comparison::Operator;

bool is_no_value(const json* value) { return value == nullptr || value->is_null(); }

// Returns the value if it is a number, and the number if the value is a word for a number that JSON lacks:
// "nan", "inf", "-inf".
std::optional<double> number_beyond_json(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const std::optional<double> number = number_of_word(value.get_ref<const std::string&>());
  return number && !std::isfinite(*number) ? number : std::nullopt;
}

bool is_not_finite(const std::optional<double>& number) { return number && !std::isfinite(*number); }

// `a` is the value of the trial, `b` is the value in the expression. The values of `env:` are text, so if `b`
// is a number, a text `a` that represents a number compares as a number.
std::partial_ordering order_of(const json& a, const json& b, bool any_case) {
  if (const std::optional<double> x = number_beyond_json(a), y = number_beyond_json(b);
      x && y && (is_not_finite(x) || is_not_finite(y))) {
    if (std::isnan(*x) && std::isnan(*y)) return std::partial_ordering::equivalent;
    return *x <=> *y;
  }
  if (a.is_number() && b.is_number()) return order_of_numbers(a, b);
  if (a.is_string() && b.is_number()) {
    const std::optional<json> number = number_in(a.get_ref<const std::string&>());
    return number ? order_of_numbers(*number, b) : std::partial_ordering::unordered;
  }
  if (a.is_string() && b.is_string()) {
    if (any_case) return lower_case(a.get<std::string>()) <=> lower_case(b.get<std::string>());
    return a.get_ref<const std::string&>() <=> b.get_ref<const std::string&>();
  }
  return are_equal(a, b) ? std::partial_ordering::equivalent : std::partial_ordering::unordered;
}

bool holds_for(const json* found, Operator op, const json& value, bool any_case) {
  if (is_no_value(found)) return value.is_null() && op == Operator::equal;
  if (value.is_null()) return op == Operator::not_equal;
  const std::partial_ordering order = order_of(*found, value, any_case);
  switch (op) {
    case Operator::equal:
      return order == 0;
    case Operator::not_equal:
      return order != 0;
    case Operator::less:
      return order < 0;
    case Operator::at_most:
      return order <= 0;
    case Operator::greater:
      return order > 0;
    case Operator::at_least:
      return order >= 0;
    case Operator::in:
    case Operator::not_in:
    case Operator::like:
      break;  // handled by is_fulfilled()
  }
  return false;
}

bool is_fulfilled(const Comparison& comparison, const Lookup& lookup) {
  const json* found = lookup(comparison.left.name);
  const bool any_case = ignores_case(comparison.left.name);
  const json& value = comparison.value;
  const auto compares = [&](Operator op) {
    return [&, op](const json& entry) { return holds_for(found, op, entry, any_case); };
  };
  if (comparison.op == Operator::in)
    return std::any_of(value.begin(), value.end(), compares(Operator::equal));
  if (comparison.op == Operator::not_in) {
    // If the list is empty, `not in` matches every trial that has a value. A trial without a value never
    // matches `not in`.
    return !is_no_value(found) && std::all_of(value.begin(), value.end(), compares(Operator::not_equal));
  }
  if (comparison.op == Operator::like)
    return found != nullptr && found->is_string() &&
           comparison.pattern->is_found_in(found->get_ref<const std::string&>());
  return holds_for(found, comparison.op, value, any_case);
}

void collect_names(const Expression& expression, std::vector<NameUse>& names) {
  if (expression.kind == Expression::Kind::comparison) names.push_back(expression.comparison.left);
  for (const Expression& part : expression.parts) collect_names(part, names);
}

std::string name_text(const std::string& name) { return is_plain_name(name) ? name : json_text(name); }

std::string joined_text(const Expression& expression, std::string_view word) {
  std::string out;
  for (const Expression& part : expression.parts) {
    if (&part != &expression.parts.front()) out += " " + std::string(word) + " ";
    const bool looser = expression.kind == Expression::Kind::all && part.kind == Expression::Kind::any;
    out += looser ? "(" + to_string(part) + ")" : to_string(part);
  }
  return out;
}

}  // namespace

bool ignores_case(std::string_view name) { return name == "state" || name == "phase"; }

bool is_duration(std::string_view name) { return name == "age" || name == "duration"; }

std::string_view sign_of(Operator op) {
  switch (op) {
    case Operator::equal:
      return "==";
    case Operator::not_equal:
      return "!=";
    case Operator::less:
      return "<";
    case Operator::at_most:
      return "<=";
    case Operator::greater:
      return ">";
    case Operator::at_least:
      return ">=";
    case Operator::in:
      return "in";
    case Operator::like:
      return "=~";
    case Operator::not_in:
      break;
  }
  return "not in";
}

bool Expression::matches(const Lookup& lookup) const {
  const auto part_matches = [&](const Expression& part) { return part.matches(lookup); };
  switch (kind) {
    case Kind::all:
      return std::all_of(parts.begin(), parts.end(), part_matches);
    case Kind::any:
      return std::any_of(parts.begin(), parts.end(), part_matches);
    case Kind::negation:
      return !parts.front().matches(lookup);
    case Kind::comparison:
      break;
  }
  return is_fulfilled(comparison, lookup);
}

std::vector<NameUse> Expression::names() const {
  std::vector<NameUse> names;
  collect_names(*this, names);
  return names;
}

std::string to_string(const Expression& expression) {
  switch (expression.kind) {
    case Expression::Kind::all:
      return joined_text(expression, "and");
    case Expression::Kind::any:
      return joined_text(expression, "or");
    case Expression::Kind::negation: {
      const Expression& part = expression.parts.front();
      const bool joins = part.kind == Expression::Kind::all || part.kind == Expression::Kind::any;
      return joins ? "not (" + to_string(part) + ")" : "not " + to_string(part);
    }
    case Expression::Kind::comparison:
      break;
  }
  const Comparison& comparison = expression.comparison;
  return name_text(comparison.left.name) + " " + std::string(sign_of(comparison.op)) + " " +
         json_text(comparison.value);
}

}  // namespace mlk::sweeps
