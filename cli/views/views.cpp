#include "cli/views/views.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run/facts/metrics.h"
#include "cli/run/state/differences.h"
#include "cli/run/state/outputs.h"
#include "cli/session/session.h"
#include "cli/ui/curve.h"
#include "cli/ui/table.h"
#include "cli/ui/width.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk {
namespace {

using json = nlohmann::json;
using std::chrono::seconds;

constexpr std::size_t label_width = 14;
constexpr std::size_t most_rows = 24;               // with more ranks, a terminal lists only those in trouble
constexpr std::size_t least_for_all_columns = 100;  // a narrower terminal lists fewer columns of runs
constexpr int most_lines = 10;                      // lines of a failure's last words

std::string duration_between(const std::optional<Time>& from, Time to) {
  if (!from) return "";
  return format_duration(std::chrono::floor<seconds>(std::max(to - *from, std::chrono::nanoseconds(0))));
}

// A number from 10,000 to a billion is rounded to a whole number (68750). Any other number gets four
// significant digits (0.004507).
std::string number(double value) {
  const double size = std::abs(value);
  return size >= 1e4 && size < 1e9 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string step_text(const RunStatus& status) {
  const json& step = at_path(status.result, {"step"});
  if (!step.is_number_integer() || step < 0) return "";
  return status.steps > 0 ? fmt::format("{}/{}", whole_number(step), status.steps) : step.dump();
}

// "12s ago", if the run has neither ended nor been stopped, and its numbers may be out of date. Otherwise
// empty.
std::string age_text(const RunStatus& status, Time now) {
  constexpr seconds new_enough{10};
  if (is_final(status.phase) || status.phase == Phase::stopped || !status.result_at ||
      step_text(status).empty() || now - *status.result_at < new_enough)
    return "";
  return duration_between(status.result_at, now) + " ago";
}

// "loss 0.31 accuracy 0.93": the leading metric is first, and the other metrics are sorted by name.
std::vector<std::string> metric_texts(const RunStatus& status) {
  std::map<std::string, std::string> values;
  if (const json& metrics = at_path(status.result, {"metrics"}); metrics.is_object()) {
    for (const auto& [key, value] : metrics.items()) {
      if (const std::optional<double> read = metric_number(value))
        values[key] = number(*read);
      else if (value.is_string())
        values[key] = printable(value.get<std::string>());  // "slowest worker/1"
    }
  }
  std::vector<std::string> texts;
  if (const auto first = leading_metric(at_path(status.result, {"metrics"}))) {
    texts.push_back(printable(first->first) + " " + values[first->first]);
    values.erase(first->first);
  }
  for (const auto& [key, value] : values) texts.push_back(printable(key) + " " + value);
  return texts;
}

std::vector<double> curve_of(const RunStatus& status) {
  std::vector<double> values;
  const json& curve = at_path(status.result, {"curve"});
  if (!curve.is_array()) return values;
  for (const json& point : curve) {
    if (point.is_array() && point.size() == 2 && point[1].is_number())
      values.push_back(point[1].get<double>());
  }
  return values;
}

// The running ranks: "2 workers 1 server".
std::string running_text(const RunStatus& status) {
  std::vector<std::pair<std::string, int>> roles;
  for (const RankStatus& rank : status.ranks) {
    if (rank.state != "Running") continue;
    const auto found =
        std::find_if(roles.begin(), roles.end(), [&](const auto& entry) { return entry.first == rank.role; });
    if (found == roles.end()) {
      roles.emplace_back(rank.role, 1);
    } else {
      ++found->second;
    }
  }
  std::vector<std::string> parts;
  for (const auto& [role, count] : roles)
    parts.push_back(fmt::format("{} {}{}", count, role, count == 1 ? "" : "s"));
  return join(parts, " ");
}

// The running ranks of a restarting run: "3 workers 1 server run". Empty for any other run, and if no rank
// runs.
std::string left_text(const RunStatus& status) {
  const auto running = std::count_if(status.ranks.begin(), status.ranks.end(),
                                     [](const RankStatus& rank) { return rank.state == "Running"; });
  if (status.phase != Phase::restarting || running == 0) return "";
  return printable(running_text(status)) + (running == 1 ? " runs" : " run");
}

class StatusPrinter {
 public:
  StatusPrinter(const RunStatus& status, std::ostream& out, const ui::Style& style, std::size_t width,
                Time now, std::string owner)
      : status_(status), out_(out), style_(style), width_(width), now_(now), owner_(std::move(owner)) {}

  void print() {
    print_head();
    field("why", status_.why);
    field("owner", owner_);
    field("commit", short_commit(status_.commit));
    const std::string age = age_text(status_, now_);
    field("step", step_text(status_) + (age.empty() ? "" : ", as of " + age));
    field("metrics", metric_texts(status_), "  ");
    print_curve();
    print_checkpoint();
    if (status_.restarts > 0) field("restarts", std::to_string(status_.restarts));
    print_failure();
    print_ranks();
  }

 private:
  void print_head() {
    std::vector<std::string> parts{style_.bold(printable(status_.run)),
                                   style_.paint(to_string(status_.phase), color_of(status_.phase))};
    if (!status_.mode.empty()) parts.push_back(printable(status_.mode));
    if (std::string left = left_text(status_); !left.empty()) parts.push_back(std::move(left));
    if (status_.started) {
      parts.push_back(took(status_.started, status_.ended, now_));
    } else if (status_.created) {
      parts.push_back("submitted " + duration_between(status_.created, now_) + " ago");
    }
    out_ << join(parts, "  ") << '\n';
  }

  void field(const std::string& label, const std::string& value) {
    if (!value.empty()) field(label, split(printable(value), ' '), " ");
  }

  void field(const std::string& label, const std::vector<std::string>& parts, std::string_view separator) {
    if (parts.empty()) return;
    const std::size_t room = width_ > label_width + 20 ? width_ - label_width - 2 : 0;
    std::string shown = label;
    for (const std::string& line : ui::fold(parts, separator, room)) {
      out_ << "  " << style_.paint(ui::pad(shown, label_width), ui::Color::gray) << line << '\n';
      shown.clear();
    }
  }

  void print_curve() {
    const std::vector<double> values = curve_of(status_);
    if (values.size() < 2) return;
    const std::size_t room =
        width_ > label_width + 40 ? std::min<std::size_t>(width_ - label_width - 30, 64) : 32;
    // A loss falls by orders of magnitude, so on a linear scale most of the curve would be flat.
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const bool logarithmic = *low > 0 && *high / *low >= 10;
    std::vector<double> heights = values;
    if (logarithmic)
      std::transform(values.begin(), values.end(), heights.begin(),
                     [](double value) { return std::log10(value); });
    field("loss", fmt::format("{} {} to {}{}", ui::sparkline(heights, room, style_.ascii()),
                              number(values.front()), number(values.back()), logarithmic ? " (log)" : ""));
  }

  void print_checkpoint() {
    const std::string unsaved = unsaved_text(status_.result);
    std::string text;
    if (unsaved.empty() || !status_.last_checkpoint.empty())
      text = checkpoint_text(status_.last_checkpoint, status_.checkpoint, is_final(status_.phase));
    field("outputs", outputs_text(status_.outputs, is_final(status_.phase)));
    field("checkpoint", text.empty() || unsaved.empty() ? text + unsaved : text + "; " + unsaved);
  }

  void print_failure() {
    if (!status_.first_failure || status_.phase == Phase::succeeded) return;
    const Failure& failure = *status_.first_failure;
    std::string head = fmt::format("{}/{}: {}", failure.role, failure.rank, failure.reason);
    if (failure.attempts > 1 && !failure.disruption)
      head += fmt::format(", try {} of {}", failure.attempt, failure.attempts);
    if (failure.at) head += ", " + duration_between(failure.at, now_) + " ago";
    field("failed first", head);
    if (failure.message.empty() || status_.why.find(trim(printable(failure.message))) != std::string::npos)
      return;
    std::vector<std::string> lines = split(printable(trim(failure.message)), '\n');
    const int skipped = std::max(0, static_cast<int>(lines.size()) - most_lines);
    for (std::size_t i = static_cast<std::size_t>(skipped); i < lines.size(); ++i) {
      const std::string line = "  " + std::string(label_width, ' ') + "| " + lines[i];
      out_ << (width_ == 0 ? line : ui::fit(line, width_, style_.ascii())) << '\n';
    }
  }

  // The reason of the rank, without the last log lines if these are printed above.
  std::string reason_of(const RankStatus& rank) const {
    if (!rank.meanwhile.empty()) return rank.meanwhile;
    const std::optional<Failure>& first = status_.first_failure;
    const bool told = first && first->role == rank.role && first->rank == rank.rank &&
                      !first->message.empty() && rank.state == "Failed" &&
                      status_.why.find(rank.reason) != std::string::npos;
    return told && rank.reason.starts_with(first->reason) ? first->reason : rank.reason;
  }

  void print_ranks() {
    if (status_.ranks.empty()) return;
    const bool folded = width_ != 0 && status_.ranks.size() > most_rows;
    ui::Table table({"ROLE", "RANK", "STATE", "RESTARTS", "AGE", "NODE", "REASON"});
    std::map<std::string, int> quiet;
    for (const RankStatus& rank : status_.ranks) {
      const bool dull = rank.reason.empty() && rank.meanwhile.empty() && rank.restarts == 0;
      if (folded && dull) {
        ++quiet[rank.state];
        continue;
      }
      const ui::Color color = rank.state == "Failed" || rank.state == "Missing" ? ui::Color::red
                              : rank.state == "Pending"                         ? ui::Color::yellow
                                                                                : ui::Color::none;
      table.add({rank.role, std::to_string(rank.rank), rank.state, std::to_string(rank.restarts),
                 duration_between(rank.since, now_), rank.node, reason_of(rank)},
                {ui::Color::none, ui::Color::none, color});
    }
    out_ << '\n';
    if (!table.empty()) table.print(out_, width_, style_);
    for (const auto& [state, count] : quiet) {
      out_ << fmt::format("{} {} ranks {} without a restart\n", count, table.empty() ? "all" : "more",
                          printable(state));
    }
  }

  const RunStatus& status_;
  std::ostream& out_;
  const ui::Style& style_;
  const std::size_t width_;
  const Time now_;
  const std::string owner_;
};

struct RowContext {
  Time now;
  std::map<std::string, std::string> differences;  // by run; only for the wide list
  std::map<std::string, std::string> owners;       // by run; empty if the list has the runs of one user alone
  bool only_loss = true;                           // whether the leading metric of each run is the loss
};

std::string step_cell(const RunStatus& run, const RowContext& context) {
  const std::string age = age_text(run, context.now);
  return step_text(run) + (age.empty() ? "" : " (" + age + ")");
}

// The leading metric, with its name if the list has other metrics than the loss.
std::string metric_cell(const RunStatus& run, const RowContext& context) {
  const auto metric = leading_metric(at_path(run.result, {"metrics"}));
  if (!metric) return "";
  return (context.only_loss ? "" : printable(metric->first) + " ") + number(metric->second);
}

// A narrow terminal shows the reason instead of columns that `mlk status` also shows. The wide list
// (`-o wide`) has no room for the step on a narrow terminal.
struct Column {
  enum class Where { everywhere, with_several_owners, in_wide_list, not_on_narrow, not_in_narrow_wide_list };
  const char* header;
  Where where;
  std::string (*cell)(const RunStatus&, const RowContext&);
};

// The columns of the list of runs, from left to right. The phase must be the second column, since
// print_runs() gives the second column a colour.
using Where = Column::Where;
constexpr char metric_header[] = "LOSS";
constexpr std::array<Column, 11> columns_of_runs{{
    {"RUN", Where::everywhere, [](const RunStatus& run, const RowContext&) { return run.run; }},
    {"PHASE", Where::everywhere,
     [](const RunStatus& run, const RowContext&) { return std::string(to_string(run.phase)); }},
    {"OWNER", Where::with_several_owners,
     [](const RunStatus& run, const RowContext& context) { return context.owners.at(run.run); }},
    {"MODE", Where::not_on_narrow, [](const RunStatus& run, const RowContext&) { return run.mode; }},
    {"STEP", Where::not_in_narrow_wide_list, step_cell},
    {metric_header, Where::not_on_narrow, metric_cell},
    {"RESTARTS", Where::not_on_narrow,
     [](const RunStatus& run, const RowContext&) { return std::to_string(run.restarts); }},
    {"AGE", Where::everywhere,
     [](const RunStatus& run, const RowContext& context) {
       return duration_between(run.created, context.now);
     }},
    {"TAGS", Where::in_wide_list,
     [](const RunStatus& run, const RowContext&) { return join(run.tags, ","); }},
    {"DIFFERS IN", Where::in_wide_list,
     [](const RunStatus& run, const RowContext& context) { return context.differences.at(run.run); }},
    {"WHY", Where::everywhere, [](const RunStatus& run, const RowContext&) { return run.why; }},
}};

bool is_shown(Where where, bool wide_list, bool narrow, bool several_owners) {
  switch (where) {
    case Where::everywhere:
      return true;
    case Where::with_several_owners:
      return several_owners;
    case Where::in_wide_list:
      return wide_list;
    case Where::not_on_narrow:
      return !narrow;
    case Where::not_in_narrow_wide_list:
      return !(narrow && wide_list);
  }
  return true;
}

std::map<std::string, std::string> owners_of(const std::vector<RunStatus>& runs) {
  std::vector<Submitter> submitters;
  for (const RunStatus& run : runs) submitters.push_back(run.submitter);
  const std::vector<std::string> names = short_names(submitters);
  std::map<std::string, std::string> out;
  std::set<std::string> different;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    out[runs[i].run] = names[i];
    if (!names[i].empty()) different.insert(names[i]);
  }
  return different.size() > 1 ? out : std::map<std::string, std::string>();
}

bool has_only_loss(const std::vector<RunStatus>& runs) {
  return std::all_of(runs.begin(), runs.end(), [](const RunStatus& run) {
    const auto metric = leading_metric(at_path(run.result, {"metrics"}));
    return !metric || metric->first == "loss";
  });
}

std::size_t width_of_output(const Session& session) {
  return session.out_is_terminal ? ui::terminal_width(STDOUT_FILENO) : 0;
}

}  // namespace

ui::Color color_of(Phase phase) {
  if (phase == Phase::succeeded || phase == Phase::running) return ui::Color::green;
  if (phase == Phase::failed) return ui::Color::red;
  if (phase == Phase::restarting || phase == Phase::stopped || phase == Phase::incomplete)
    return ui::Color::yellow;
  return ui::Color::cyan;
}

std::string took(const std::optional<Time>& started, const std::optional<Time>& ended, Time now) {
  if (!started) return "";
  return (ended ? "took " : "since ") + duration_between(started, ended.value_or(now));
}

std::string short_commit(const std::string& commit) {
  constexpr std::size_t shown = 12;
  const std::size_t end = std::min(commit.find('-'), commit.size());
  return commit.substr(0, std::min(shown, end)) + commit.substr(end);
}

void print_status(const RunStatus& status, std::ostream& out, const ui::Style& style, std::size_t width,
                  Time now, const std::string& owner) {
  StatusPrinter(status, out, style, width, now, owner).print();
}

void print_runs(const std::vector<RunStatus>& runs, std::ostream& out, const ui::Style& style,
                std::size_t width, Time now, Columns columns, const std::vector<ChosenColumn>& chosen) {
  const bool all = columns == Columns::all;
  const bool narrow = width != 0 && width < least_for_all_columns;
  const RowContext context{now, all ? differences_of(runs) : std::map<std::string, std::string>(),
                           owners_of(runs), has_only_loss(runs)};
  std::vector<const Column*> shown;
  std::vector<std::string> headers;
  for (const Column& column : columns_of_runs) {
    const bool is_metric = column.header == metric_header;
    if (is_metric && !chosen.empty()) {
      shown.push_back(&column);
      for (const ChosenColumn& each : chosen) headers.push_back(printable(each.header));
    } else if (is_shown(column.where, all, narrow, !context.owners.empty())) {
      shown.push_back(&column);
      headers.emplace_back(is_metric && !context.only_loss ? "METRIC" : column.header);
    }
  }
  ui::Table table(headers);
  for (std::size_t row = 0; row < runs.size(); ++row) {
    std::vector<std::string> cells;
    for (const Column* column : shown) {
      if (column->header == metric_header && !chosen.empty()) {
        for (const ChosenColumn& each : chosen) cells.push_back(printable(each.cells[row]));
      } else {
        cells.push_back(column->cell(runs[row], context));
      }
    }
    table.add(std::move(cells), {ui::Color::none, color_of(runs[row].phase)});
  }
  table.print(out, width, style);
}

void print_status(const RunStatus& status, Session& session, const Me& me) {
  const bool of_another = is_of_another(status.submitter, me);
  print_status(status, session.out, session.style_out(), width_of_output(session),
               std::chrono::system_clock::now(), of_another ? called(status.submitter, me) : "");
}

void print_runs(const std::vector<RunStatus>& runs, Session& session, Columns columns,
                const std::vector<ChosenColumn>& chosen) {
  print_runs(runs, session.out, session.style_out(), width_of_output(session),
             std::chrono::system_clock::now(), columns, chosen);
}

std::string progress_line(const RunStatus& status) {
  std::vector<std::string> parts{std::string(to_string(status.phase))};
  if (const std::string step = step_text(status); !step.empty()) parts.push_back("step " + step);
  const std::vector<std::string> metrics = metric_texts(status);
  if (!metrics.empty()) parts.push_back(metrics.front());
  if (const std::string running = running_text(status); !running.empty()) parts.push_back(running);
  if (status.restarts > 0) parts.push_back(fmt::format("restarts {}", status.restarts));
  if (!status.why.empty()) parts.push_back(status.why);
  return printable(join(parts, "  "));
}

std::string phase_line(const RunStatus& status) {
  const std::string phase(to_string(status.phase));
  return status.why.empty() ? phase : printable(phase + ": " + status.why);
}

std::string untimed(std::string line) {
  for (const std::string_view mark : {"next in ", "next is due"}) {
    for (std::size_t at = line.find(mark); at != std::string::npos; at = line.find(mark, at)) {
      line.erase(at, line.find(')', at) - at);
    }
  }
  return line;
}

}  // namespace mlk
