// Checks the names and the values in expressions against known names and values.
#include <algorithm>

#include <fmt/format.h>

#include "cli/util/text.h"
#include "cli/where/expression.h"
#include "cli/where/expression_tokens.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;
using Operator = Comparison::Operator;
using NameList = std::vector<std::string>;

// "a, b or 3 others": lists only a few names, because people do not read a long list.
std::string some_of(const NameList& names, std::string_view last_word) {
  constexpr std::size_t few = 8;
  NameList told(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), few)));
  if (names.size() > few) told.push_back(fmt::format("{} others", names.size() - few));
  if (told.size() == 1) return told.front();
  const std::string last = told.back();
  told.pop_back();
  return fmt::format("{} {} {}", join(told, ", "), last_word, last);
}

NameList without_repeats(NameList names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// The known names that end with a dot followed by `name`.
NameList paths_ending_in(const std::string& name, const NameList& known) {
  NameList found;
  for (const std::string& path : known) {
    if (path.ends_with("." + name)) found.push_back(path);
  }
  return without_repeats(found);
}

std::string advice_on(const std::string& name, const NameList& known) {
  NameList candidates = known;
  for (const std::string& path : known) candidates.push_back(path.substr(path.rfind('.') + 1));
  return did_you_mean(name, candidates);
}

// Returns the full name from `known`. Adds a problem if `known` has no such name, or has several.
std::string resolved(const NameUse& use, const NameList& known, Problems& problems) {
  if (std::find(known.begin(), known.end(), use.name) != known.end()) return use.name;
  const NameList paths = paths_ending_in(use.name, known);
  if (paths.size() == 1) return paths.front();
  if (paths.empty()) {
    problems.add(use.place, fmt::format("there is no parameter, metric or field '{}'{}", use.name,
                                        advice_on(use.name, known)));
  } else {
    problems.add(use.place,
                 fmt::format("'{}' is the end of {}; write one of them", use.name, some_of(paths, "and of")));
  }
  return use.name;
}

void resolve_names(Expression& expression, const NameList& known, Problems& problems) {
  if (expression.kind == Expression::Kind::comparison) {
    NameUse& left = expression.comparison.left;
    left.name = resolved(left, known, problems);
  }
  for (Expression& part : expression.parts) resolve_names(part, known, problems);
}

void check_text(const Comparison& comparison, const json& value, const NameList& values, Problems& problems) {
  if (!value.is_string()) return;
  const std::string text = value.get<std::string>();
  const bool any_case = ignores_case(comparison.left.name);
  const auto is_it = [&](const std::string& each) {
    return any_case ? lower_case(each) == lower_case(text) : each == text;
  };
  if (std::any_of(values.begin(), values.end(), is_it)) return;
  const std::string near = nearest(text, values);
  problems.add(comparison.value_place,
               fmt::format("there is no {} '{}'; {}", comparison.left.name, text,
                           near.empty() ? "it is " + some_of(values, "or") : "did you mean '" + near + "'?"));
}

void check_comparisons(const Expression& expression, const std::string& name, const NameList& values,
                       Problems& problems) {
  const Comparison& comparison = expression.comparison;
  if (expression.kind == Expression::Kind::comparison && comparison.left.name == name) {
    if (comparison.op == Operator::in || comparison.op == Operator::not_in) {
      for (const json& each : comparison.value) check_text(comparison, each, values, problems);
    } else if (comparison.op == Operator::equal || comparison.op == Operator::not_equal) {
      check_text(comparison, comparison.value, values, problems);
    }
  }
  for (const Expression& part : expression.parts) check_comparisons(part, name, values, problems);
}

}  // namespace

Expression check_names(const Expression& expression, const NameList& known) {
  Expression checked = expression;
  Problems problems;
  resolve_names(checked, known, problems);
  problems.throw_if_any(known.empty() ? "" : "there are " + some_of(without_repeats(known), "and"));
  return checked;
}

void check_values(const Expression& expression, const std::string& name, const NameList& values) {
  Problems problems;
  check_comparisons(expression, name, values, problems);
  problems.throw_if_any();
}

}  // namespace mlk::sweeps
