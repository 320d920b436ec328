#include "sweeps/space/forms.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/experiment/values.h"
#include "cli/util/number.h"
#include "cli/util/text.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

constexpr std::string_view forms_text =
    "a list, {range: [1, 9, 2]}, {uniform: [a, b]}, {log_uniform: [a, b]}, {int: [a, b]}, {int: [a, b], log: "
    "true} or {choice: [...]}";

// The numbers of a list that has `least` to `most` numbers; empty after adding a problem.
std::vector<json> read_numbers(const YamlNode& node, const std::string& of, std::size_t least,
                               std::size_t most, Problems& problems) {
  std::vector<json> numbers;
  const bool counted =
      node.kind == YamlNode::Kind::list && node.items.size() >= least && node.items.size() <= most;
  if (counted) {
    for (const YamlNode& item : node.items) numbers.push_back(to_json(item));
  }
  const bool good = counted && std::all_of(numbers.begin(), numbers.end(), [](const json& number) {
                      return number.is_number() && std::isfinite(number.get<double>());
                    });
  if (good) return numbers;
  problems.add(node.place,
               fmt::format("{} must be a list of {} numbers, not {}", of,
                           least == most ? fmt::format("{}", least) : fmt::format("{} or {}", least, most),
                           describe(node)));
  return {};
}

// The number of decimal places as written. The values of a range are rounded to so many places, so that they
// appear as 0.1, 0.2, 0.3.
int decimals_of(const YamlNode& node) {
  const std::string_view text = node.text;
  const std::size_t point = text.find('.'), exponent = text.find_first_of("eE");
  int digits = 0;
  if (point != std::string_view::npos) digits = static_cast<int>(std::min(exponent, text.size()) - point - 1);
  if (exponent != std::string_view::npos) {
    std::string_view power = text.substr(exponent + 1);
    if (power.starts_with('+')) power.remove_prefix(1);
    digits -= std::clamp(parse_int(power, 0), -1000, 1000);
  }
  return std::clamp(digits, 0, 17);
}

// Whether a double can represent all whole numbers from `first` to `last`. If not, adds a problem.
bool check_exact(const YamlNode& node, const std::string& of, double first, double last, Problems& problems) {
  if (std::max(std::fabs(first), std::fabs(last)) < largest_whole) return true;
  problems.add(node.place,
               fmt::format("{} reaches {:.0f}, from where on numbers are not exact; list its values", of,
                           largest_whole));
  return false;
}

void read_range(const YamlNode& node, const std::string& of, Parameter& out, Problems& problems) {
  const std::vector<json> numbers = read_numbers(node, of, 2, 3, problems);
  if (numbers.empty()) return;
  const double first = numbers[0].get<double>(), last = numbers[1].get<double>();
  const double step = numbers.size() == 3 ? numbers[2].get<double>() : 1;
  if (!check_exact(node, of, first, last, problems)) return;
  if (step == 0 || (last - first) / step < 0) {
    problems.add(node.place, fmt::format("{} never comes from {} to {} in steps of {}", of,
                                         text_of_value(numbers[0]), text_of_value(numbers[1]),
                                         numbers.size() == 3 ? text_of_value(numbers[2]) : "1"));
    return;
  }
  const double count = std::floor((last - first) / step + 1e-9) + 1;
  if (count > static_cast<double>(most_values)) {
    problems.add(node.place,
                 fmt::format("{} has {:.0f} values; a parameter has at most {}", of, count, most_values));
    return;
  }
  const bool whole = std::all_of(numbers.begin(), numbers.end(),
                                 [](const json& number) { return number.is_number_integer(); });
  int decimals = 0;
  for (const YamlNode& item : node.items) decimals = std::max(decimals, decimals_of(item));
  const double scale = std::pow(10.0, decimals);
  for (int i = 0; i < static_cast<int>(count); ++i) {
    const double value = first + i * step;
    out.values.push_back(whole ? json(std::llround(value)) : json(std::round(value * scale) / scale));
  }
}

bool has_logarithm(Parameter::Kind kind) {
  return kind == Parameter::Kind::log_uniform || kind == Parameter::Kind::log_integer;
}

void read_bounds(const YamlNode& node, const std::string& of, Parameter& out, Problems& problems) {
  const std::vector<json> numbers = read_numbers(node, of, 2, 2, problems);
  if (numbers.empty()) return;
  out.low = numbers[0].get<double>();
  out.high = numbers[1].get<double>();
  if (is_whole(out.kind) && !check_exact(node, of, out.low, out.high, problems)) return;
  if (out.low >= out.high) {
    problems.add(node.place, fmt::format("{} must go from a lower to a higher number", of));
  } else if (has_logarithm(out.kind) && out.low <= 0) {
    problems.add(node.place, fmt::format("{} must begin above 0: it has a logarithm", of));
  } else if (is_whole(out.kind) && !(numbers[0].is_number_integer() && numbers[1].is_number_integer())) {
    problems.add(node.place, fmt::format("{} must be two whole numbers", of));
  }
}

void read_values(const YamlNode& node, const std::string& of, Parameter& out, Problems& problems) {
  if (node.kind != YamlNode::Kind::list) {
    problems.add(node.place, fmt::format("{} must be a list, not {}", of, describe(node)));
    return;
  }
  if (node.items.empty()) problems.add(node.place, fmt::format("{} has no values", of));
  for (const YamlNode& item : node.items) {
    json value = to_json(item);
    if (value.is_null()) {
      problems.add(item.place, fmt::format("{} has an empty value", of));
    } else if (std::find(out.values.begin(), out.values.end(), value) != out.values.end()) {
      problems.add(
          item.place,
          fmt::format("{} has the value {} twice{}", of, text_of_value(value),
                      value.is_number() ? "; numbers count by their value, text in quotes does not" : ""));
    } else {
      note_spelling(value, item.text, out.written);
      out.places.try_emplace(value, item.place);
      out.values.push_back(std::move(value));
    }
  }
}

void read_one_form(const YamlEntry& entry, bool by_logarithm, Parameter& out, Problems& problems) {
  const std::string of = fmt::format("{} of {}", entry.key, out.path);
  out.place = entry.value.place;
  if (entry.key == "choice") return read_values(entry.value, of, out, problems);
  if (entry.key == "range") return read_range(entry.value, of, out, problems);
  using Kind = Parameter::Kind;
  if (entry.key == "uniform") out.kind = by_logarithm ? Kind::log_uniform : Kind::uniform;
  if (entry.key == "log_uniform") out.kind = Kind::log_uniform;
  if (entry.key == "int") out.kind = by_logarithm ? Kind::log_integer : Kind::integer;
  read_bounds(entry.value, of, out, problems);
}

// The value of the key `log` beside a form of values; false if there is no such key.
bool reads_logarithm(const YamlNode& node, const std::string& path, Problems& problems) {
  const YamlNode* log = node.find("log");
  if (log == nullptr) return false;
  const json value = to_json(*log);
  if (!value.is_boolean())
    problems.add(log->place, fmt::format("log of {} must be true or false, not {}", path, describe(*log)));
  if (node.find("int") == nullptr && node.find("uniform") == nullptr)
    problems.add(log->place, fmt::format("log of {} stands beside int or uniform alone", path));
  return value == true;
}

void read_map(const YamlNode& node, const Names& names, Parameter& out, Problems& problems) {
  const bool by_logarithm = reads_logarithm(node, out.path, problems);
  const std::vector<std::string> forms{"choice", "range", "uniform", "log_uniform", "int"};
  int given = 0;
  for (const YamlEntry& entry : node.entries) {
    if (entry.key == "log") continue;
    if (entry.key == "when") {
      out.when = read_conditions(entry.value, "when of " + out.path, names, problems);
    } else if (std::find(forms.begin(), forms.end(), entry.key) == forms.end()) {
      const std::string near = did_you_mean(entry.key, forms);
      problems.add(entry.place,
                   fmt::format("'{}' is no form of values{}", entry.key,
                               near.empty() ? fmt::format("; {} takes {}", out.path, forms_text) : near));
      ++given;
    } else if (++given == 1) {
      read_one_form(entry, by_logarithm, out, problems);
    } else {
      problems.add(entry.place, fmt::format("{} has two forms of values; it can be one", out.path));
    }
  }
  if (given == 0) problems.add(node.place, fmt::format("{} has no values: give {}", out.path, forms_text));
}

YamlNode scalar(std::string text, const Place& place) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = std::move(text);
  node.plain = true;
  node.place = place;
  return node;
}

YamlNode list_of(std::vector<YamlNode> items, const Place& place) {
  YamlNode node;
  node.kind = YamlNode::Kind::list;
  node.items = std::move(items);
  node.place = place;
  return node;
}

YamlNode map_of(std::string key, YamlNode value, const Place& place) {
  YamlNode node;
  node.kind = YamlNode::Kind::map;
  node.entries.push_back({std::move(key), place, std::move(value)});
  node.place = place;
  return node;
}

// Turns "0.5..0.9", "1..9:2" and "1e-5..1e-1:log" into the map that a file would contain. nullopt for any
// other text; also adds a problem if the text is an interval with a mistake behind the colon.
std::optional<YamlNode> read_interval(const std::string& text, const Place& place, Problems& problems) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) return std::nullopt;
  const std::size_t colon = text.find(':', dots);
  const std::string low = text.substr(0, dots), high = text.substr(dots + 2, colon - dots - 2);
  if (!is_number(low) || !is_number(high)) return std::nullopt;
  std::vector<YamlNode> bounds{scalar(low, place), scalar(high, place)};
  const std::string step = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool whole = is_whole_number(low) && is_whole_number(high);
  if (step == "log") {
    YamlNode form = map_of(whole ? "int" : "uniform", list_of(std::move(bounds), place), place);
    form.entries.push_back({"log", place, scalar("true", place)});
    return form;
  }
  if (is_number(step)) {
    bounds.push_back(scalar(step, place));
    return map_of("range", list_of(std::move(bounds), place), place);
  }
  if (!step.empty()) {
    problems.add({place.source, place.line, place.column + colon + 1},
                 fmt::format("what follows ':' must be a step, or log, not '{}'", step));
    return std::nullopt;
  }
  return map_of(whole ? "int" : "uniform", list_of(std::move(bounds), place), place);
}

}  // namespace

std::vector<Condition> read_conditions(const YamlNode& node, const std::string& of, const Names& names,
                                       Problems& problems) {
  std::vector<Condition> out;
  if (node.kind != YamlNode::Kind::map || node.entries.empty()) {
    problems.add(node.place,
                 fmt::format("{} must be a map of parameters to values, not {}", of,
                             node.entries.empty() && node.kind == YamlNode::Kind::map ? "an empty one"
                                                                                      : describe(node)));
    return out;
  }
  for (const YamlEntry& entry : node.entries) {
    const std::optional<std::string> path = names.resolve(entry.key, entry.place, problems);
    if (!path) continue;
    Condition condition{*path, {}};
    if (entry.value.kind == YamlNode::Kind::list) {
      for (const YamlNode& item : entry.value.items) condition.values.push_back(to_json(item));
    }
    // A list may also be one value, as in `hidden: [128, 128]`.
    condition.values.push_back(to_json(entry.value));
    out.push_back(std::move(condition));
  }
  return out;
}

std::optional<Parameter> read_form(const std::string& path, const YamlNode& node, const Names& names,
                                   Problems& problems) {
  Parameter out;
  out.path = path;
  out.place = node.place;
  const std::size_t before = problems.size();
  if (node.kind == YamlNode::Kind::map) {
    read_map(node, names, out, problems);
  } else if (node.kind == YamlNode::Kind::list) {
    read_values(node, path, out, problems);
  } else if (node.kind == YamlNode::Kind::scalar) {
    out.values.push_back(to_json(node));
    note_spelling(out.values.back(), node.text, out.written);
  } else {
    problems.add(node.place, fmt::format("{} has no values: give {}", path, forms_text));
  }
  if (problems.size() > before) return std::nullopt;
  return out;
}

std::optional<Word> read_word(const std::string& word, Problems& problems) {
  const auto source = std::make_shared<const Source>(Source{"argument", word});
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
    problems.add({source, 0, 0}, "a parameter is written PATH=VALUES, for example lr=0.1,0.01");
    return std::nullopt;
  }
  const std::string path = word.substr(0, equals), text = word.substr(equals + 1);
  const Place place{source, 0, equals + 1};
  const std::size_t before = problems.size();
  if (std::optional<YamlNode> interval = read_interval(text, place, problems))
    return Word{path, {source, 0, 0}, std::move(*interval)};
  if (problems.size() > before) return std::nullopt;
  // Parses the values as a YAML list: commas separate the values, and [128,128] is one value. Blanks replace
  // the path, so that messages have the right columns.
  std::optional<YamlNode> values = parse_yaml(std::string(equals, ' ') + "[" + text + "]", source, problems);
  if (!values) return std::nullopt;
  return Word{path, {source, 0, 0}, std::move(*values)};
}

}  // namespace mlk::sweeps
