// Expressions of --where. The parser refuses a text with a reason, or the printed form of the expression
// means the same as the text.
#include "cli/where/expression.h"

#include <cstdint>
#include <limits>
#include <string>

#include "cli/util/error.h"
#include "tests/fuzz/demand.h"

using namespace mlk::sweeps;
using mlk::fuzz::demand;
using nlohmann::json;

namespace {

// Values of every type. The length of a name determines its value.
const json& value_of(const std::string& name) {
  static const json values = {nullptr, 1,          -0.5,       "Succeeded",
                              true,    {128, "a"}, {{"k", 1}}, std::numeric_limits<double>::quiet_NaN()};
  return values[name.size() % values.size()];
}

bool matches_sample(const Expression& expression) {
  return expression.matches(
      [](const std::string& name) { return name.ends_with('a') ? nullptr : &value_of(name); });
}

void use_names(const Expression& expression) {
  std::vector<std::string> known;
  for (const NameUse& use : expression.names()) {
    demand(use.place.source != nullptr && use.place.column <= use.place.source->text.size());
    known.push_back(use.name);
  }
  demand(to_string(check_names(expression, known)) == to_string(expression));
  known.pop_back();
  try {
    (void)check_names(expression, known);
    check_values(expression, "state", {"Running", "Succeeded"});
  } catch (const mlk::Error& error) {
    demand(error.code() == mlk::ExitCode::usage);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Expression expression;
  try {
    expression = parse_expression({reinterpret_cast<const char*>(data), size}, "--where");
  } catch (const mlk::Error& error) {
    demand(error.code() == mlk::ExitCode::usage);
    return 0;
  }
  use_names(expression);
  const std::string printed = to_string(expression);
  if (printed.size() > longest_expression) return 0;
  const Expression again = parse_expression(printed, "printed");
  demand(to_string(again) == printed);
  demand(matches_sample(again) == matches_sample(expression));
  return 0;
}
