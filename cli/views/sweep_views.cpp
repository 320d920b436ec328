#include "cli/views/sweep_views.h"

#include <algorithm>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/session/session.h"
#include "cli/ui/plot.h"
#include "cli/ui/progress.h"
#include "cli/ui/table.h"
#include "cli/ui/width.h"
#include "cli/util/text.h"
#include "cli/util/time.h"
#include "cli/views/views.h"
#include "sweeps/results/results.h"
#include "sweeps/space/names.h"
#include "sweeps/space/trial_values.h"

namespace mlk {
namespace {

using sweeps::Counts;
using sweeps::SweepStatus;
using sweeps::Trial;
using sweeps::TrialState;

constexpr std::size_t sweep_label_width = 12;
constexpr std::size_t most_trials_shown = 20;

std::string counts_text(const Counts& counts) {
  const int done = counts.succeeded + counts.failed;
  std::vector<std::string> parts{fmt::format("{}/{} done", done, counts.all())};
  if (counts.running > 0) parts.push_back(fmt::format("{} running", counts.running));
  if (counts.failed > 0) parts.push_back(fmt::format("{} failed", counts.failed));
  if (counts.stopped > 0) parts.push_back(fmt::format("{} stopped", counts.stopped));
  return join(parts, "  ");
}

std::string objective_text(const SweepStatus& status, const Trial& trial) {
  if (!trial.objective || !status.record.objective) return "";
  return fmt::format("{} {:.4g}", status.record.objective->metric, *trial.objective);
}

std::string best_text(const SweepStatus& status) {
  const Trial* best = sweeps::best_of(status);
  if (best == nullptr) return "";
  return fmt::format("{} ({}/{})", objective_text(status, *best), status.sweep, best->number);
}

// Estimates from the ended trials how long the sweep still runs. Empty if no estimate is possible.
std::string time_left(const SweepStatus& status, Time now) {
  const int done = status.counts.succeeded + status.counts.failed;
  const int left = status.counts.waiting + status.counts.running;
  const bool stands = status.phase != Phase::running || !status.driver.gone.empty();
  if (stands || done == 0 || left == 0 || !status.started) return "";
  const double so_far = std::chrono::duration<double>(now - *status.started).count();
  const auto rest = std::chrono::seconds(static_cast<long>(so_far / done * left));
  return "about " + format_duration(rest) + " left";
}

// The values of a parameter on an axis. If all are numbers, each stands at its value; otherwise the values
// stand at 0, 1, 2 ...
struct PlottedAxis {
  ui::PlotPoints points;
  std::vector<std::string> categories;
  bool logarithmic = false;
};

PlottedAxis points_of(const std::vector<Trial>& trials, const std::string& path) {
  std::vector<std::pair<const nlohmann::json*, double>> values;  // each value with the objective of its trial
  for (const Trial& trial : trials) {
    const auto value = trial.point.find(path);
    if (value != trial.point.end() && trial.objective) values.emplace_back(&value->second, *trial.objective);
  }
  PlottedAxis out;
  if (std::all_of(values.begin(), values.end(), [](const auto& each) { return each.first->is_number(); })) {
    for (const auto& [value, objective] : values) out.points.emplace_back(value->get<double>(), objective);
    const auto [low, high] = std::minmax_element(out.points.begin(), out.points.end());
    out.logarithmic = !out.points.empty() && low->first > 0 && high->first / low->first >= 10;
    return out;
  }
  for (const auto& [value, objective] : values) {
    const std::string text = sweeps::text_of_value(*value);
    auto at = std::find(out.categories.begin(), out.categories.end(), text);
    if (at == out.categories.end()) at = out.categories.insert(at, text);
    out.points.emplace_back(static_cast<double>(at - out.categories.begin()), objective);
  }
  return out;
}

bool varies(const std::vector<Trial>& trials, const std::string& path) {
  const nlohmann::json* first = nullptr;
  for (const Trial& trial : trials) {
    const auto value = trial.point.find(path);
    if (value == trial.point.end()) continue;
    if (first != nullptr && *first != value->second) return true;
    first = &value->second;
  }
  return false;
}

}  // namespace

void print_plots(const std::vector<Trial>& trials, const sweeps::Objective& objective,
                 const sweeps::Space& space, Session& session) {
  constexpr std::size_t most_curves = 5;
  ui::PlotOptions options;
  options.width = session.out_is_terminal ? ui::terminal_width(STDOUT_FILENO) : 80;
  options.ascii = session.style_out().ascii();
  options.y.label = objective.metric;
  for (const sweeps::Parameter& parameter : space.parameters) {
    if (!varies(trials, parameter.path)) continue;
    const PlottedAxis axis = points_of(trials, parameter.path);
    options.x = {parameter.path, axis.logarithmic};
    options.categories = axis.categories;
    session.out << '\n';
    for (const std::string& line : ui::scatter(axis.points, options)) session.out << line << '\n';
  }
  std::vector<ui::PlotSeries> series;
  for (const Trial& trial : trials) {
    if (trial.curve.size() < 2 || series.size() == most_curves) continue;
    ui::PlotSeries curve{fmt::format("{} {}", trial.number, sweeps::describe(trial.point)), {}};
    for (const auto& [step, value] : trial.curve) curve.points.emplace_back(static_cast<double>(step), value);
    series.push_back(std::move(curve));
  }
  if (series.empty()) return;
  options.x = {"step", false};
  options.categories.clear();
  options.y.label.clear();
  session.out << '\n';
  for (const std::string& line : ui::lines(series, options, session.style_out())) session.out << line << '\n';
}

std::string progress_line(const SweepStatus& status) {
  std::vector<std::string> parts{std::string(to_string(status.phase)), counts_text(status.counts)};
  if (const std::string best = best_text(status); !best.empty()) parts.push_back("best " + best);
  const std::string left = time_left(status, std::chrono::system_clock::now());
  if (!left.empty()) parts.push_back(left);
  if (!status.why.empty()) parts.push_back(status.why);
  return printable(join(parts, "  "));
}

std::string progress_bar(const SweepStatus& status, std::size_t width, Time now, bool ascii) {
  constexpr std::size_t least = 8, most = 40;
  const Counts& counts = status.counts;
  const auto size = [](int count) { return static_cast<std::size_t>(std::max(count, 0)); };
  const std::size_t done = size(counts.succeeded + counts.failed + counts.stopped);
  const Trial* best = sweeps::best_of(status);
  const std::string left = time_left(status, now);
  // On a narrow terminal, parts are left out: first the part with the highest `rank`.
  struct Part {
    std::string text;
    int rank;
  };
  std::vector<Part> parts{{fmt::format("{}/{}", done, counts.all()), 0}};
  if (counts.running > 0) parts.push_back({fmt::format("{} running", counts.running), 3});
  if (counts.failed > 0) parts.push_back({fmt::format("{} failed", counts.failed), 1});
  if (counts.stopped > 0) parts.push_back({fmt::format("{} stopped", counts.stopped), 6});
  if (best != nullptr)
    parts.push_back({fmt::format("best {} ({})", objective_text(status, *best), best->number), 2});
  if (!left.empty()) parts.push_back({left, 4});
  if (counts.running == 0) parts.push_back({std::string(to_string(status.phase)), 5});
  const auto columns = [&] {
    std::size_t sum = least;
    for (const Part& part : parts) sum += 2 + ui::width_of(part.text);
    return sum;
  };
  while (columns() > width && parts.size() > 1) {
    parts.erase(std::max_element(parts.begin(), parts.end(),
                                 [](const Part& a, const Part& b) { return a.rank < b.rank; }));
  }
  const std::size_t rest = width > columns() ? width - columns() : 0;
  const std::size_t of_bar = std::min(least + rest, most);
  std::string line = ui::bar(of_bar, done, size(counts.running), size(counts.all()), ascii);
  for (const Part& part : parts) line += "  " + part.text;
  if (!status.why.empty()) line += "  " + status.why;
  return printable(line);
}

std::string trial_line(const SweepStatus& status, const Trial& trial) {
  std::vector<std::string> parts{fmt::format("{}/{}", status.sweep, trial.number),
                                 std::string(to_string(trial.state))};
  if (const std::string objective = objective_text(status, trial); !objective.empty())
    parts.push_back(objective);
  parts.push_back(sweeps::describe(trial.point));
  if (!trial.failure.empty()) parts.push_back(trial.failure);
  return printable(join(parts, "  "));
}

void print_leaderboard(const SweepStatus& status, std::size_t top, Session& session, Where where) {
  if (status.trials.empty()) return;
  const sweeps::Objective objective = status.record.objective.value_or(sweeps::Objective{});
  const std::vector<Trial> ordered =
      sweeps::in_order(status.trials, objective, status.record.space, {.sort = "", .top = top});
  const sweeps::ResultTable results = sweeps::result_table(ordered, objective, status.record.space);
  ui::Table table(sweeps::shown_headers(results));
  for (std::vector<std::string>& row : sweeps::shown_rows(results)) table.add(std::move(row));
  const bool out = where == Where::out;
  const bool terminal = out ? session.out_is_terminal : session.err_is_terminal;
  const int descriptor = out ? STDOUT_FILENO : STDERR_FILENO;
  table.print(out ? session.out : session.err, terminal ? ui::terminal_width(descriptor) : 0,
              out ? session.style_out() : session.style_err());
  if (ordered.size() < status.trials.size()) {
    session.note(fmt::format("{} more trials: {}", status.trials.size() - ordered.size(),
                             session.command("results " + status.sweep)));
  }
}

void print_sweep(const SweepStatus& status, Session& session) {
  const ui::Style style = session.style_out();
  const Time now = std::chrono::system_clock::now();
  std::vector<std::string> head{style.bold(printable(status.sweep)),
                                style.paint(to_string(status.phase), color_of(status.phase)),
                                "sweep of " + printable(status.mode)};
  if (const std::string time = took(status.started, status.ended, now); !time.empty()) head.push_back(time);
  session.out << join(head, "  ") << '\n';
  const auto field = [&](const std::string& label, const std::string& value) {
    if (value.empty()) return;
    session.out << "  " << style.paint(ui::pad(label, sweep_label_width), ui::Color::gray) << printable(value)
                << '\n';
  };
  field("why", status.why);
  if (!is_final(status.phase)) field("driver", status.driver.what);
  field("trials", counts_text(status.counts));
  field("search", printable(status.record.search) + fmt::format(", {} at a time", status.record.parallel));
  field("best", best_text(status));
  field("time", time_left(status, now));
  session.out << '\n';
  print_leaderboard(status, session.out_is_terminal ? most_trials_shown : 0, session, Where::out);
}

}  // namespace mlk
