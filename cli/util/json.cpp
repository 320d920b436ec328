#include "cli/util/json.h"

#include <nlohmann/json.hpp>

#include "cli/util/text.h"

namespace mlk {

// Counts brackets and commas outside of quotes only. If the text is not JSON, the parser stops at the
// mistake, so it never builds more values than were counted here.
std::string over_bounds(std::string_view text, const JsonBounds& bounds) {
  std::size_t depth = 0, values = 1;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > bounds.depth) return "nested deeper than " + std::to_string(bounds.depth) + " levels";
      ++values;
    } else if (c == ']' || c == '}') {
      if (depth > 0) --depth;
    } else if (c == ',') {
      ++values;
    }
    if (values > bounds.values) return "more than " + std::to_string(bounds.values) + " values";
  }
  return "";
}

nlohmann::json parse_json(std::string_view text, const std::string& name, const JsonBounds& bounds) {
  if (const std::string why = over_bounds(text, bounds); !why.empty()) {
    throw Error(ExitCode::failure, name + ": " + why);
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw NotJson(name, error.byte);
  } catch (const nlohmann::json::exception&) {  // a number out of range
    throw NotJson(name, text.size());
  }
}

nlohmann::json json_or_null(std::string_view text, const JsonBounds& bounds) {
  if (!over_bounds(text, bounds).empty()) return nullptr;
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  return value.is_discarded() ? nlohmann::json() : value;
}

std::string json_text(const nlohmann::json& value, int indent) {
  return escape_controls(value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace mlk
