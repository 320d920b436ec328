#include "sweeps/reported.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <regex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run/metrics.h"
#include "cli/util/error.h"
#include "cli/util/json.h"
#include "cli/util/text.h"

namespace mlk::sweeps {
namespace {

constexpr std::size_t longest_report = 4096;   // bytes of a line
constexpr std::size_t longest_pattern = 256;   // bytes
constexpr std::size_t largest_pattern = 2048;  // bytes with the repeats in braces written out, about

std::optional<double> number_in_text(const std::string& text) {
  if (text.empty() || std::isspace(static_cast<unsigned char>(text.front())) != 0) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> reported_step(double value) {
  if (!std::isfinite(value) || value < 0 || value >= most_steps) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

// The progress of a trial, from the steps and epochs in a line.
std::optional<std::int64_t> place_of(const std::string& position, std::optional<double> step,
                                     std::optional<double> epoch) {
  const std::optional<double> wanted = position == "epoch" ? epoch : step ? step : epoch;
  return wanted ? reported_step(*wanted) : std::nullopt;
}

// `loss=0.3` among words, as in "[train] step=10, loss=0.3".
std::optional<Reported> find_in_words(std::string_view line, const Objective& objective) {
  constexpr std::string_view between = " \t,;()[]{}";
  Reported reported;
  std::optional<double> step, epoch;
  bool found = false;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find_first_of(between));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = word.substr(0, equals);
    std::string_view text = word.substr(equals + 1);
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
    const std::optional<double> value = number_in_text(std::string(text));
    if (!value) continue;
    if (key == objective.metric) {
      reported.value = *value;
      found = true;
    }
    if (key == "step") step = value;
    if (key == "epoch") epoch = value;
  }
  reported.step = place_of(objective.position, step, epoch);
  return found ? std::optional(reported) : std::nullopt;
}

// Python writes NaN, Infinity and -Infinity, which are not JSON: in quotes they can be parsed.
std::string with_quoted_words(std::string_view line) {
  constexpr std::string_view words[] = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') in_string = !in_string;
    for (const std::string_view word : words) {
      if (in_string || !line.substr(i).starts_with(word)) continue;
      out.append("\"").append(word).append("\"");
      i += word.size();
      break;
    }
    if (i >= line.size()) break;
    out += line[i];
    if (in_string && line[i] == '\\' && i + 1 < line.size()) out += line[++i];
  }
  return out;
}

std::optional<double> json_number(const nlohmann::json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  return found->is_string() ? number_in_text(found->get_ref<const std::string&>()) : std::nullopt;
}

std::optional<Reported> find_in_json(std::string_view line, const Objective& objective) {
  constexpr JsonBounds bounds{.depth = 32, .values = 4096};
  nlohmann::json object = json_or_null(line, bounds);
  if (object.is_null()) object = json_or_null(with_quoted_words(line), bounds);
  if (!object.is_object()) return std::nullopt;
  const std::optional<double> value = json_number(object, objective.metric);
  if (!value) return std::nullopt;
  return Reported{place_of(objective.position, json_number(object, "step"), json_number(object, "epoch")),
                  *value};
}

std::optional<Reported> find_in_metrics(const Metrics& metrics, const Objective& objective) {
  const auto found = metrics.values.find(objective.metric);
  if (found == metrics.values.end()) return std::nullopt;
  const auto epoch = metrics.values.find("epoch");
  return Reported{place_of(objective.position, static_cast<double>(metrics.step),
                           epoch == metrics.values.end() ? std::nullopt : std::optional(epoch->second)),
                  found->second};
}

// An estimate of the pattern's states: a repeat in braces copies the repeated part.
std::size_t size_of_pattern(const std::string& pattern) {
  std::size_t size = pattern.size();
  for (std::size_t at = pattern.find('{'); at != std::string::npos; at = pattern.find('{', at + 1)) {
    std::size_t largest = 1;
    std::size_t number = 0;
    for (const char c : pattern.substr(at + 1, pattern.find_first_not_of("0123456789,", at + 1) - at - 1)) {
      number = c == ',' ? 0 : std::min(number * 10 + static_cast<std::size_t>(c - '0'), largest_pattern + 1);
      largest = std::max(largest, number);
    }
    size = std::min(size * largest, largest_pattern + 1);
  }
  return size;
}

// The library's search backtracks, which can take practically for ever. GNU's can be told to follow all
// possibilities in parallel instead (Thompson 1968); LLVM's gives up by itself.
std::regex compiled_pattern(const std::string& pattern) {
  auto flags = std::regex::ECMAScript;
#ifdef __GLIBCXX__
  flags |= std::regex_constants::__polynomial;
#endif
  // A search restarts at each character; one match from the beginning does not.
  return std::regex("[\\s\\S]*?(?:" + pattern + ")[\\s\\S]*", flags);
}

}  // namespace

struct MetricFinder::Pattern {
  std::regex regex;
};

std::string why_no_pattern(const std::string& pattern) {
  if (pattern.empty()) return "is empty";
  if (pattern.size() > longest_pattern) return fmt::format("longer than {} bytes", longest_pattern);
  if (pattern.find('\0') != std::string::npos) return "has a zero byte";
  if (size_of_pattern(pattern) > largest_pattern) return "the repeats in braces make it too large";
  try {
    std::regex alone(
        pattern);  // compiled alone first, so that an extra bracket in it cannot close one of ours
    if (alone.mark_count() == 0) return "needs a group in parentheses that matches the number";
    compiled_pattern(pattern);
  } catch (const std::regex_error& error) {
    using namespace std::regex_constants;
    // GNU's library does not distinguish these two.
    if (error.code() == error_paren || error.code() == error_badrepeat)
      return "a '(' or ')' lacks the other one, or nothing stands before a *, + or ?";
    if (error.code() == error_brack) return "a '[' is not closed";
    if (error.code() == error_brace || error.code() == error_badbrace)
      return "braces need numbers, as in {1,3}";
    if (error.code() == error_escape) return "this escape with '\\' is not known";
    if (error.code() == error_complexity) return "too complex, or it refers back to a group";
    return "not a regular expression";
  }
  return "";
}

MetricFinder::MetricFinder(const Objective& objective) : objective_(objective) {
  if (objective.regex.empty()) return;
  if (const std::string why = why_no_pattern(objective.regex); !why.empty()) {
    throw Error(ExitCode::usage, printable(fmt::format("regex of the objective: {}", why)));
  }
  pattern_ = std::make_unique<const Pattern>(Pattern{compiled_pattern(objective.regex)});
}

MetricFinder::~MetricFinder() = default;
MetricFinder::MetricFinder(MetricFinder&&) noexcept = default;
MetricFinder& MetricFinder::operator=(MetricFinder&&) noexcept = default;

std::optional<Reported> MetricFinder::find(std::string_view line) const {
  if (line.size() > longest_report) return std::nullopt;
  line = trim(line);
  if (!pattern_) {
    if (line.starts_with('{')) return find_in_json(line, objective_);
    if (const std::optional<Metrics> metrics = parse_metrics(line))
      return find_in_metrics(*metrics, objective_);
    return find_in_words(line, objective_);
  }
  std::match_results<std::string_view::const_iterator> match;
  try {
    if (!std::regex_match(line.begin(), line.end(), match, pattern_->regex)) return std::nullopt;
  } catch (const std::regex_error&) {  // the match took too long
    return std::nullopt;
  }
  const std::optional<double> value = number_in_text(std::string(trim(match[1].str())));
  return value ? std::optional(Reported{std::nullopt, *value}) : std::nullopt;
}

}  // namespace mlk::sweeps
