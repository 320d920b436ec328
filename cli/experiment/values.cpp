#include "cli/experiment/values.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/experiment/arguments.h"
#include "cli/experiment/suggest.h"
#include "cli/util/text.h"
#include "cli/util/time.h"

namespace mlk {

using nlohmann::json;

namespace {

bool is_text(const YamlNode& node) { return node.kind == YamlNode::Kind::scalar; }

struct Range {
  double low = 0, high = 0;
  bool above_low = false, below_high = false;  // whether `low` or `high` is itself excluded

  bool contains(double x) const {
    return (above_low ? x > low : x >= low) && (below_high ? x < high : x <= high);
  }
  std::string words() const {
    // A bound that is a whole number is written with all its digits, not as 1e+12.
    const auto number = [](double x) {
      return x == std::floor(x) ? fmt::format("{:.0f}", x) : fmt::format("{:g}", x);
    };
    if (above_low)
      return fmt::format("above {} and {} {}", number(low), below_high ? "below" : "at most", number(high));
    return fmt::format("from {} to {}{}", number(low), below_high ? "below " : "", number(high));
  }
};

Range range_of(std::string_view detail) {
  const bool above_low = detail.starts_with('('), below_high = detail.ends_with(')');
  if (above_low) detail.remove_prefix(1);
  const std::size_t dots = detail.find("..");
  return {std::stod(std::string(detail.substr(0, dots))), std::stod(std::string(detail.substr(dots + 2))),
          above_low, below_high};
}

json wrong(const YamlNode& node, const std::string& path, std::string_view expected, Problems& problems,
           const std::string& advice = "") {
  std::string what = node.kind == YamlNode::Kind::null
                         ? fmt::format("{} has no value; it must be {}", path, expected)
                         : fmt::format("{} must be {}, not {}{}", path, expected, describe(node), advice);
  problems.add(node.place, what);
  return nullptr;
}

json whole_value(const YamlNode& node, std::string_view detail, const std::string& path, Problems& problems) {
  if (!is_text(node) || !node.plain || !is_whole_number(node.text)) {
    std::string expected = "a whole number";
    if (is_text(node) && !node.plain) expected += " without quotes";
    return wrong(node, path, expected, problems);
  }
  const Range range = range_of(detail);
  const json value = to_json(node);
  if (!value.is_number_integer() || !range.contains(value.get<double>()))
    return wrong(node, path, range.words(), problems);
  return value;
}

json number_value(const YamlNode& node, std::string_view detail, const std::string& path,
                  Problems& problems) {
  const json value = is_text(node) ? to_json(node) : json();
  if (!value.is_number()) return wrong(node, path, "a number", problems);
  const Range range = range_of(detail);
  const double number = value.get<double>();
  return range.contains(number) ? json(number) : wrong(node, path, range.words(), problems);
}

json boolean_value(const YamlNode& node, const std::string& path, Problems& problems) {
  const json value = is_text(node) ? to_json(node) : json();
  return value.is_boolean() ? value : wrong(node, path, "true or false", problems);
}

json choice_value(const YamlNode& node, std::string_view detail, const std::string& path,
                  Problems& problems) {
  const std::vector<std::string> choices = split(detail, '|');
  if (is_text(node) && std::find(choices.begin(), choices.end(), node.text) != choices.end())
    return node.text;
  return wrong(node, path, join_or(choices), problems,
               is_text(node) ? suggest_choice(node.text, detail) : "");
}

// Returns the text of the node if `valid` accepts the text. Otherwise adds a problem and returns null.
json text_value(const YamlNode& node, const std::string& path, std::string_view expected, Problems& problems,
                const std::function<bool(const std::string&)>& valid) {
  if (!is_text(node) || !valid(node.text)) return wrong(node, path, expected, problems);
  return node.text;
}

bool is_object_name(const std::string& text) {
  if (text.size() > 253) return false;
  const std::vector<std::string> parts = split(text, '.');
  return !parts.empty() && std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    // A name of an object may begin with a digit, unlike a name of a run. So the check adds a letter in
    // front.
    return is_dns_label("a" + part, 254) && !part.empty() && part.front() != '-';
  });
}

bool is_absolute_path(const std::string& text) {
  if (!text.starts_with('/') || text.find(':') != std::string::npos) return false;
  const std::vector<std::string> parts = split(text, '/');
  return std::find(parts.begin(), parts.end(), "..") == parts.end();
}

// Removes '.', doubled slashes and a slash at the end, so that all spellings of a path become the same text.
json path_value(const YamlNode& node, bool may_be_relative, const std::string& path, Problems& problems) {
  const json value =
      may_be_relative
          ? text_value(node, path, "a path without '..' or ':'", problems,
                       [](const std::string& text) { return is_absolute_path("/" + text); })
          : text_value(node, path, "an absolute path without '..' or ':'", problems, is_absolute_path);
  if (value.is_null()) return value;
  std::string normal = std::filesystem::path(value.get<std::string>()).lexically_normal().string();
  if (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal;
}

json command_value(const YamlNode& node, const std::string& path, Problems& problems) {
  constexpr char expected[] = "a command or a list of its words";
  if (is_text(node) && !trim(node.text).empty()) return node.text;
  if (node.kind != YamlNode::Kind::list || node.items.empty()) return wrong(node, path, expected, problems);
  json words = json::array();
  for (const YamlNode& item : node.items) {
    words.push_back(
        text_value(item, path, "a list of words", problems, [](const std::string&) { return true; }));
  }
  return words;
}

json consistency_value(const YamlNode& node, const std::string& path, Problems& problems) {
  if (is_text(node) && (node.text == "sync" || node.text == "async")) return node.text;
  if (node.kind == YamlNode::Kind::map && node.entries.size() == 1 && node.entries[0].key == "staleness") {
    const json steps = whole_value(node.entries[0].value, "0..1000000", path + ".staleness", problems);
    return json{{"staleness", steps}};
  }
  return wrong(node, path, "sync, async or {staleness: N}", problems);
}

json pod_user_value(const YamlNode& node, const std::string& path, Problems& problems) {
  if (is_text(node) && (node.text == "auto" || node.text == "image")) return node.text;
  if (is_text(node) && is_whole_number(node.text)) return whole_value(node, "0..2147483647", path, problems);
  return wrong(node, path, "auto, image or the number of a user", problems);
}

bool is_exit_code(std::string_view text) {
  return is_whole_number(text) && text.size() <= 3 && std::stoi(std::string(text)) >= 1 &&
         std::stoi(std::string(text)) <= 255;
}

bool is_retry_rule(const std::string& text) {
  if (text == "preemption" || text == "any" || is_exit_code(text)) return true;
  const std::vector<std::string> ends = split(text, '-');
  return ends.size() == 2 && is_exit_code(ends[0]) && is_exit_code(ends[1]) &&
         std::stoi(ends[0]) <= std::stoi(ends[1]);
}

// Returns a list of texts. For each text that `valid` refuses, adds a problem, and the text becomes null.
json list_value(const YamlNode& node, const std::string& path, std::string_view expected_list,
                std::string_view expected, Problems& problems,
                const std::function<bool(const std::string&)>& valid) {
  if (node.kind != YamlNode::Kind::list) return wrong(node, path, expected_list, problems);
  json out = json::array();
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    out.push_back(text_value(node.items[i], fmt::format("{}[{}]", path, i), expected, problems, valid));
  }
  return out;
}

bool is_variable(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0) return false;
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return c < 0x80 && (std::isalnum(c) != 0 || c == '_'); });
}

// Checks a reference to a Secret: {secret: name/key}.
json secret_reference(const YamlNode& node, const std::string& path, Problems& problems) {
  const auto valid = [](const std::string& text) {
    const std::vector<std::string> parts = split(text, '/');
    if (parts.size() != 2 || parts[1].empty() || parts[1].size() > 253) return false;
    return is_object_name(parts[0]) && std::all_of(parts[1].begin(), parts[1].end(), [](unsigned char c) {
             return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
           });
  };
  if (node.entries.size() != 1 || node.entries[0].key != "secret") {
    problems.add(node.place, fmt::format("{} must be text or {{secret: name/key}}", path));
    return nullptr;
  }
  const json reference = text_value(node.entries[0].value, path + ".secret",
                                    "name/key: a Secret and a key in it", problems, valid);
  return json{{"secret", reference}};
}

json environment_value(const YamlNode& node, const std::string& path, Problems& problems) {
  if (node.kind != YamlNode::Kind::map) return wrong(node, path, "a map of variables", problems);
  json out = json::object();
  for (const YamlEntry& entry : node.entries) {
    const std::string where = path + "." + entry.key;
    if (!is_variable(entry.key)) {
      problems.add(entry.place, fmt::format("'{}' cannot be the name of a variable", entry.key));
    } else if (entry.key.starts_with("MLK_")) {
      problems.add(entry.place, fmt::format("{}: variables that begin with MLK_ are mlk's own", entry.key));
    } else if (entry.value.kind == YamlNode::Kind::map) {
      out[entry.key] = secret_reference(entry.value, where, problems);
    } else if (!is_text(entry.value)) {
      wrong(entry.value, where, "text or {secret: name/key}; empty text is \"\"", problems);
    } else if (looks_like_secret(entry.value.text) ||
               (names_secret(entry.key) && to_json(entry.value).is_string() && !entry.value.text.empty())) {
      problems.add(
          entry.place,
          fmt::format("{} looks like a secret, which anyone who may read the run could see; put it into a "
                      "Secret and write {}: {{secret: name/key}}",
                      entry.key, entry.key));
    } else {
      out[entry.key] = entry.value.text;
    }
  }
  return out;
}

json duration_value(const YamlNode& node, std::string_view detail, const std::string& path,
                    Problems& problems) {
  constexpr std::string_view from_zero = "0s..";
  const bool may_be_zero = detail.starts_with(from_zero);
  const std::string_view longest = may_be_zero ? detail.substr(from_zero.size()) : detail;
  std::string expected = "a time such as 90s, 15m or 12h";
  if (!longest.empty()) expected += fmt::format(", at most {}", longest);
  return text_value(node, path, expected, problems, [&](const std::string& value) {
    const auto duration = parse_duration(value);
    return duration && (may_be_zero || duration->count() > 0) &&
           (longest.empty() || *duration <= parse_duration(longest));
  });
}

json wholes_value(const YamlNode& node, std::string_view detail, const std::string& path,
                  Problems& problems) {
  const std::size_t bar = detail.find('|');
  const std::string_view range = detail.substr(0, bar), longest = detail.substr(bar + 1);
  if (node.kind != YamlNode::Kind::list) return wrong(node, path, "a list of whole numbers", problems);
  if (node.items.size() > std::stoul(std::string(longest))) {
    problems.add(node.place,
                 fmt::format("{} must have at most {} entries, not {}", path, longest, node.items.size()));
    return nullptr;
  }
  json out = json::array();
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    out.push_back(whole_value(node.items[i], range, fmt::format("{}[{}]", path, i), problems));
  }
  return out;
}

json map_value(const YamlNode& node, const Key& key, const std::string& path, Problems& problems) {
  if (node.kind != YamlNode::Kind::map) return wrong(node, path, "a map", problems);
  if (key.type == Type::free_map) return to_json(node);
  json out = json::object();
  for (const YamlEntry& entry : node.entries) {
    out[entry.key] = text_value(entry.value, path + "." + entry.key, "text", problems,
                                [](const std::string&) { return true; });
  }
  return out;
}

bool is_not_empty(const std::string& value) { return !value.empty(); }

// Checks a text by the rule for the type of the key.
json scalar_text_value(const YamlNode& node, const Key& key, const std::string& path, Problems& problems) {
  const auto text = [&](std::string_view expected, const std::function<bool(const std::string&)>& valid) {
    return text_value(node, path, expected, problems, valid);
  };
  switch (key.type) {
    case Type::dns_label:
      return text(
          fmt::format("lower-case letters, digits and '-', a letter first, at most {}", key.detail),
          [&](const std::string& value) { return is_dns_label(value, std::stoul(std::string(key.detail))); });
    case Type::object_name:
      return text("the name of a Kubernetes object", is_object_name);
    case Type::folder:
      return text("a folder", is_not_empty);
    case Type::cpu:
      return text("a number of CPUs such as 2, 0.5 or 250m",
                  [](const std::string& value) { return cpu_millis(value).has_value(); });
    case Type::memory:
      return text("an amount such as 512Mi or 4Gi",
                  [](const std::string& value) { return memory_bytes(value).has_value(); });
    default:
      return text("text", is_not_empty);
  }
}

json texts_value(const YamlNode& node, Type type, const std::string& path, Problems& problems) {
  if (type == Type::retry_rules) {
    return list_value(node, path, "a list such as [preemption, \"128-255\"]",
                      "preemption, any, an exit code from 1 to 255 or a range of them", problems,
                      is_retry_rule);
  }
  if (type == Type::object_names) {
    return list_value(node, path, "a list of names", "the name of a Kubernetes object", problems,
                      is_object_name);
  }
  return list_value(node, path, "a list of text", "text", problems, is_not_empty);
}

// Returns a decimal number exactly, in units of 10^-digits. nullopt if the text is not a number or has more
// than `digits` digits after the point, or if the result has more than 17 digits.
std::optional<long long> decimal(std::string_view text, int digits) {
  const std::string_view whole = text.substr(0, text.find('.'));
  std::string fraction(whole.size() < text.size() ? text.substr(whole.size() + 1) : "");
  if (whole.size() < text.size() && fraction.empty()) return std::nullopt;
  if (whole.empty() || fraction.size() > static_cast<std::size_t>(digits)) return std::nullopt;
  fraction.append(static_cast<std::size_t>(digits) - fraction.size(), '0');
  const std::string all = std::string(whole) + fraction;
  if (all.find_first_not_of("0123456789") != std::string::npos || all.size() > 17) return std::nullopt;
  return std::stoll(all);
}

}  // namespace

std::optional<long long> memory_bytes(std::string_view text) {
  struct Unit {
    std::string_view suffix;
    long long bytes;
  };
  static constexpr Unit units[] = {{"Ki", 1LL << 10}, {"Mi", 1LL << 20},   {"Gi", 1LL << 30},
                                   {"Ti", 1LL << 40}, {"k", 1000},         {"M", 1000000},
                                   {"G", 1000000000}, {"T", 1000000000000}};
  long long scale = 1;
  for (const Unit& unit : units) {
    if (!text.ends_with(unit.suffix)) continue;
    scale = unit.bytes;
    text.remove_suffix(unit.suffix.size());
    break;
  }
  const std::optional<long long> thousandths = decimal(text, 3);
  if (!thousandths) return std::nullopt;
  // All factors are whole numbers, so this order of operations is exact. For example, 3.001k is exactly 3001
  // bytes.
  const long double bytes = static_cast<long double>(*thousandths) * static_cast<long double>(scale) / 1000;
  if (bytes < 1 || bytes > 1e18L) return std::nullopt;
  return static_cast<long long>(bytes);
}

std::optional<long long> cpu_millis(std::string_view text) {
  const bool milli = text.ends_with('m');
  if (milli) text.remove_suffix(1);
  const std::optional<long long> value = decimal(text, milli ? 0 : 3);
  if (!value || *value < 1 || *value > 1000000000) return std::nullopt;
  return value;
}

bool is_dns_label(std::string_view text, std::size_t longest) {
  if (text.empty() || text.size() > longest || text.front() < 'a' || text.front() > 'z' || text.back() == '-')
    return false;
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

std::string describe(const YamlNode& node) {
  constexpr std::size_t longest = 40;
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
    case YamlNode::Kind::scalar:
      break;
  }
  if (looks_like_secret(node.text)) return "this";
  const std::string_view line = std::string_view(node.text).substr(0, node.text.find('\n'));
  if (line.size() <= longest && line.size() == node.text.size()) return fmt::format("'{}'", line);
  std::size_t length = std::min(longest, line.size());
  while (length > 0 && length < line.size() && (static_cast<unsigned char>(line[length]) & 0xC0) == 0x80)
    --length;
  return fmt::format("'{}...'", line.substr(0, length));
}

json check_value(const YamlNode& node, const Key& key, const std::string& path, Problems& problems) {
  switch (key.type) {
    case Type::text:
    case Type::dns_label:
    case Type::object_name:
    case Type::folder:
    case Type::cpu:
    case Type::memory:
      return scalar_text_value(node, key, path, problems);
    case Type::choice:
      return choice_value(node, key.detail, path, problems);
    case Type::path:
      return path_value(node, key.detail == "or relative", path, problems);
    case Type::whole:
      return whole_value(node, key.detail, path, problems);
    case Type::number:
      return number_value(node, key.detail, path, problems);
    case Type::boolean:
      return boolean_value(node, path, problems);
    case Type::duration:
      return duration_value(node, key.detail, path, problems);
    case Type::command:
      return command_value(node, path, problems);
    case Type::consistency:
      return consistency_value(node, path, problems);
    case Type::pod_user:
      return pod_user_value(node, path, problems);
    case Type::arguments:
      return arguments_value(node, path, problems);
    case Type::environment:
      return environment_value(node, path, problems);
    case Type::retry_rules:
    case Type::texts:
    case Type::object_names:
      return texts_value(node, key.type, path, problems);
    case Type::wholes:
      return wholes_value(node, key.detail, path, problems);
    case Type::text_map:
    case Type::free_map:
      return map_value(node, key, path, problems);
    case Type::any:
      return to_json(node);
    case Type::later:
      problems.add(node.place, std::string(key.detail));
      return nullptr;
    case Type::section:
    case Type::path_section:
    case Type::sections:
    case Type::section_map:
      break;  // check.cpp checks these types
  }
  return nullptr;
}

}  // namespace mlk
