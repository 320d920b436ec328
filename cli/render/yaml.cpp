#include "cli/render/yaml.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/util/unicode.h"

namespace mlk {
namespace {

using json = nlohmann::json;

// Words that YAML 1.1 reads as booleans or null.
bool is_reserved(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  static const std::set<std::string> words{"",   "~",  "null", "true", "false", "yes",
                                           "no", "on", "off",  "y",    "n"};
  return words.count(text) == 1;
}

// Whether the text needs no quotes, because every reader reads it as text. Examples are a name and a path.
// Text that may look like a number stays quoted.
bool is_plain(const std::string& text) {
  if (is_reserved(text) || text.size() > 200) return false;
  const auto letter = [](unsigned char c) { return std::isalpha(c) != 0 || c == '/' || c == '_'; };
  if (!letter(static_cast<unsigned char>(text.front()))) return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("/_.-=").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// Whether the character controls a terminal or is not valid in YAML. JSON writes most such characters
// unchanged.
bool is_special(char32_t code) {
  return (controls_terminal(code) && code != '\n' && code != '\t') || code == 0xfeff || code == 0xfffe ||
         code == 0xffff;
}

// Writes special characters as \uXXXX, which YAML decodes in double quotes.
std::string escaped_for_yaml(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character read = first_character(text);
    out += is_special(read.code) ? fmt::format("\\u{:04x}", static_cast<std::uint32_t>(read.code))
                                 : std::string(text.substr(0, read.bytes));
    text.remove_prefix(read.bytes);
  }
  return out;
}

// Returns the value as a scalar of YAML. The form of a text in JSON is also valid as a double-quoted scalar
// of YAML.
std::string scalar(const json& value) {
  if (value.is_string() && is_plain(value.get_ref<const std::string&>())) return value.get<std::string>();
  return escaped_for_yaml(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

// Whether the value is a text of several lines that a literal block can hold unchanged.
bool is_block(const json& value) {
  if (!value.is_string()) return false;
  const std::string& text = value.get_ref<const std::string&>();
  if (text.find('\n') == std::string::npos || text.front() == ' ' || text.front() == '\n') return false;
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 && c != '\n'; }) &&
         text.find(" \n") == std::string::npos && escaped_for_yaml(text) == text;
}

void write(const json& value, std::size_t depth, std::string& out);

void write_block(const std::string& text, std::size_t depth, std::string& out) {
  const std::size_t end = text.find_last_not_of('\n') + 1;
  const std::size_t newlines = text.size() - end;
  out += newlines == 0 ? "|-\n" : newlines == 1 ? "|\n" : "|+\n";
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t stop = std::min(text.find('\n', start), text.size());
    if (stop > start) out += std::string(depth * 2, ' ') + text.substr(start, stop - start);
    out += '\n';
    start = stop + 1;
  }
}

// Writes the value after "key:" or "-".
void write_value(const json& value, std::size_t depth, std::string& out) {
  if (value.is_structured() && !value.empty()) {
    out += '\n';
    write(value, depth, out);
  } else if (is_block(value)) {
    out += ' ';
    write_block(value.get<std::string>(), depth, out);
  } else {
    out += ' ' + scalar(value) + '\n';
  }
}

void write(const json& value, std::size_t depth, std::string& out) {
  const std::string indent(depth * 2, ' ');
  if (value.is_array()) {
    for (const json& item : value) {
      if (!item.is_object() || item.empty()) {
        out += indent + '-';
        write_value(item, depth + 1, out);
        continue;
      }
      std::string inner;  // the first key of a map is on the line of the dash
      write(item, depth + 1, inner);
      out += indent + "- " + inner.substr((depth + 1) * 2);
    }
    return;
  }
  for (const auto& [key, item] : value.items()) {
    out += indent + scalar(json(key)) + ':';
    write_value(item, depth + 1, out);
  }
}

}  // namespace

std::string to_yaml(const json& value) {
  std::string out;
  if (value.is_structured() && !value.empty()) {
    write(value, 0, out);
  } else {
    out = scalar(value) + '\n';
  }
  return out;
}

}  // namespace mlk
