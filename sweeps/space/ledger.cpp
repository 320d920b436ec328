#include "sweeps/space/ledger.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include <nlohmann/json.hpp>

#include "cli/run/facts/metrics.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::sweeps {
namespace {

using json = nlohmann::json;
using LedgerCurve = std::vector<std::pair<std::int64_t, double>>;

// The size of the longest line: keys, braces and the state, three numbers, the objective and two times take
// less than 300 bytes; a point of the curve is "[step,value],", at most 16 + 24 + 4 bytes; in a failure every
// byte may need a backslash. The sum is 11908 bytes, so a line of 14 KiB has room for keys of later versions.
// A shard of 64 such lines with newlines has 917568 bytes, and its limit of 900 KiB is 921600 bytes.
constexpr std::size_t longest_rest = 300;
constexpr std::size_t longest_curve_point = 44;
static_assert(longest_rest + longest_point + longest_metrics + longest_curve * longest_curve_point +
                  2 * longest_failure <=
              longest_line);

constexpr std::int64_t most_steps_kept = 999'999'999'999'999;  // 15 digits and a sign
constexpr int most_tries = 1'000'000;

std::string failure_line(const std::string& text) {
  const std::string line = replaced(printable(text), {{'\n', " "}, {'\t', " "}});
  return std::string(cut(line, longest_failure));
}

// The metrics that are numbers or words; null if the trial has no such metric. Numbers that JSON cannot
// represent become words.
json bounded_metrics(const json& metrics) {
  json out;
  if (!metrics.is_object()) return out;
  std::size_t size = 2;
  for (const auto& [key, value] : metrics.items()) {
    if (!value.is_number() && !value.is_string() && !value.is_boolean()) continue;
    const bool is_finite = !value.is_number_float() || std::isfinite(value.get<double>());
    const json kept = is_finite ? value : metric_to_json(value.get<double>());
    // Two more bytes for a colon and a comma.
    size += json_text(json(key)).size() + json_text(kept).size() + 2;
    if (size > longest_metrics) break;
    out[key] = kept;
  }
  return out;
}

// Drops points whose value or step does not fit into a line. Then keeps at most `longest_curve` points,
// evenly chosen by position, always with the first and the last.
LedgerCurve bounded_curve(const LedgerCurve& curve) {
  LedgerCurve fitting;
  std::copy_if(curve.begin(), curve.end(), std::back_inserter(fitting), [](const auto& point) {
    return std::isfinite(point.second) && point.first >= 0 && point.first <= most_steps_kept;
  });
  if (fitting.size() <= longest_curve) return fitting;
  LedgerCurve out;
  for (std::size_t i = 0; i < longest_curve; ++i)
    out.push_back(fitting[i * (fitting.size() - 1) / (longest_curve - 1)]);
  return out;
}

// A whole number from 0 to `most`; `otherwise` if the line has no such number.
std::int64_t whole_in_line(const json& object, const char* key, std::int64_t most, std::int64_t otherwise) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return otherwise;
  // An unsigned number beyond the signed range becomes negative here, and the next line refuses negative
  // numbers.
  const auto value = found->get<std::int64_t>();
  return value < 0 || value > most ? otherwise : value;
}

LedgerCurve curve_in_line(const json& value) {
  LedgerCurve curve;
  if (!value.is_array()) return curve;
  for (const json& point : value) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number_integer() || !point[1].is_number())
      continue;
    curve.emplace_back(point[0].get<std::int64_t>(), point[1].get<double>());
  }
  return bounded_curve(curve);
}

// Whether the trial has succeeded, as far as the two views tell: it exited with 0, and there is no verdict on
// this try or a later one.
bool has_succeeded(const Trial& view, const Trial& other) {
  const auto judges = [](const Trial& each) { return is_verdict(each.failure) && !each.objective; };
  const bool condemned = judges(view) || (judges(other) && other.tries >= view.tries);
  return view.state == TrialState::succeeded && !condemned;
}

// Whether `b` wins over `a`. In the rank, the elements behind `step` only make the result independent of the
// order of the arguments.
bool view_loses(const Trial& a, const Trial& b) {
  const auto rank = [](const Trial& trial, const Trial& other) {
    return std::tuple(has_succeeded(trial, other), trial.tries, trial.state == TrialState::succeeded,
                      has_ended(trial.state), trial.step, trial.state == TrialState::failed,
                      trial.state == TrialState::running, trial.ended, trial.objective,
                      json_text(trial.metrics), trial.failure, trial.number, json_text(json(trial.point)),
                      trial.hash);
  };
  return rank(a, b) < rank(b, a);
}

bool curve_is_longer(const LedgerCurve& a, const LedgerCurve& b) {
  const auto rank = [](const LedgerCurve& curve) {
    return std::tuple(curve.empty() ? -1 : curve.back().first, curve.size());
  };
  return rank(a) != rank(b) ? rank(a) > rank(b) : a > b;
}

// The longer curve, preceded by those points of the other curve that are earlier.
LedgerCurve joined(const LedgerCurve& a, const LedgerCurve& b) {
  const LedgerCurve& longer = curve_is_longer(b, a) ? b : a;
  const LedgerCurve& other = &longer == &a ? b : a;
  LedgerCurve out;
  if (longer.empty()) return out;
  std::copy_if(other.begin(), other.end(), std::back_inserter(out),
               [&](const auto& point) { return point.first < longer.front().first; });
  out.insert(out.end(), longer.begin(), longer.end());
  return out;
}

}  // namespace

std::string to_line(const Trial& trial) {
  json line = {{"n", std::max(trial.number, 0)},
               {"p", json::object()},
               {"s", std::string(to_string(trial.state))},
               {"t", std::clamp(trial.tries, 0, most_tries)},
               {"i", std::clamp<std::int64_t>(trial.step, 0, most_steps_kept)}};
  for (const auto& [path, value] : trial.point) line["p"][path] = value;
  if (json metrics = bounded_metrics(trial.metrics); !metrics.is_null()) line["m"] = std::move(metrics);
  if (trial.objective && std::isfinite(*trial.objective)) line["o"] = *trial.objective;
  if (const LedgerCurve curve = bounded_curve(trial.curve); !curve.empty()) line["c"] = curve;
  if (!trial.failure.empty()) line["f"] = failure_line(trial.failure);
  if (trial.started) line["a"] = format_time_micro(*trial.started);
  if (trial.ended) line["e"] = format_time_micro(*trial.ended);
  return json_text(line);
}

std::optional<Trial> from_line(std::string_view line) {
  if (line.size() > longest_line) return std::nullopt;
  const json object = json_or_null(line, {.depth = 32, .values = longest_line});
  if (!object.is_object()) return std::nullopt;
  const std::int64_t number = whole_in_line(object, "n", std::numeric_limits<int>::max(), -1);
  const json& point = at_path(object, {"p"});
  const std::optional<TrialState> state = parse_trial_state(text_of(object, {"s"}));
  if (number < 0 || !state || !point.is_object() || json_text(point).size() > longest_point)
    return std::nullopt;
  Trial trial;
  trial.number = static_cast<int>(number);
  trial.point = point.get<Point>();
  trial.hash = hash_of(trial.point);
  trial.state = *state;
  trial.tries = static_cast<int>(whole_in_line(object, "t", most_tries, 0));
  trial.step = whole_in_line(object, "i", most_steps_kept, 0);
  trial.metrics = bounded_metrics(at_path(object, {"m"}));
  if (const json& objective = at_path(object, {"o"}); objective.is_number())
    trial.objective = objective.get<double>();
  trial.curve = curve_in_line(at_path(object, {"c"}));
  trial.failure = failure_line(text_of(object, {"f"}));
  trial.started = parse_time(text_of(object, {"a"}));
  trial.ended = parse_time(text_of(object, {"e"}));
  return trial;
}

std::vector<Trial> from_shard(std::string_view text) {
  std::vector<Trial> trials;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (std::optional<Trial> trial = from_line(line)) trials.push_back(std::move(*trial));
  }
  return trials;
}

Trial combine(const Trial& a, const Trial& b) {
  const bool first_loses = view_loses(a, b);
  const Trial& other = first_loses ? a : b;
  Trial merged = first_loses ? b : a;
  // The winner copies progress only from a view of the same try. A success copies progress also from a later
  // try that has not failed.
  const bool won = merged.state == TrialState::succeeded;
  const bool of_same_try =
      won ? other.tries >= merged.tries && other.state != TrialState::failed : other.tries == merged.tries;
  // A verdict on an earlier try does not apply to the try of the winner, so the winner does not copy it.
  const bool outdated = is_verdict(other.failure) && other.tries < merged.tries;
  merged.tries = std::max(merged.tries, other.tries);
  if (of_same_try && merged.metrics.is_null() && !merged.objective) {
    merged.step = std::max(merged.step, other.step);
    merged.metrics = other.metrics;
    merged.objective = other.objective;
  }
  if (has_ended(merged.state) && !merged.ended) merged.ended = other.ended;
  if (merged.failure.empty() && !outdated) merged.failure = other.failure;
  if (!merged.started || (other.started && *other.started < *merged.started)) merged.started = other.started;
  merged.curve = joined(a.curve, b.curve);
  return merged;
}

Trial continued(const Trial& reported, Trial now, bool whole) {
  now.curve = joined(reported.curve, now.curve);
  if (!now.started || (reported.started && *reported.started < *now.started)) now.started = reported.started;
  if (!whole || !now.metrics.is_null() || now.objective) return now;
  now.step = reported.step;
  now.metrics = reported.metrics;
  now.objective = reported.objective;
  return now;
}

}  // namespace mlk::sweeps
