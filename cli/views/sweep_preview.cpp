#include "cli/views/sweep_preview.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/session/session.h"
#include "cli/ui/table.h"
#include "cli/ui/width.h"
#include "cli/util/json.h"
#include "cli/util/text.h"
#include "sweeps/space/names.h"
#include "sweeps/start/preview.h"
#include "sweeps/trials/observe.h"

namespace mlk {
namespace {

using nlohmann::json;
using sweeps::Definition;
using sweeps::Point;
using sweeps::Room;
using sweeps::Trial;

constexpr std::size_t most_first = 5, most_last = 3;
constexpr std::size_t preview_label_width = 12;

const kube::Resource quota_resource{"", "v1", "resourcequotas", "ResourceQuota"};
const kube::Resource node_resource{"", "v1", "nodes", "Node"};

// Facts about the cluster. A field is empty if the user may not read it.
struct ClusterView {
  std::vector<Trial> trials;  // the trials of the sweep, if it exists already
  std::optional<std::vector<json>> quotas, nodes;
  std::vector<json> pods;  // the pods of all namespaces, except ended pods
};

struct NumberedPoint {
  int number = 0;
  bool is_new = true;
  Point point;
};

struct SweepPreview {
  std::vector<NumberedPoint> points;  // with the search `tpe`, only the first point
  int trials = 0, fresh = 0;          // all trials of the sweep; the trials that do not exist yet
  sweeps::TrialNeed need;             // what the largest new trial needs
  std::vector<sweeps::TrialGroup> groups;
  std::optional<double> minutes;
  bool measured = false;  // whether `minutes` is the mean of succeeded trials
  std::optional<Room> quota, nodes;
};

// nullopt if the user may not list the resource, or if the server does not have this kind of object.
std::optional<std::vector<json>> list_if_allowed(kube::Client& client, const kube::Resource& resource,
                                                 const std::string& name_space,
                                                 const kube::ListOptions& options = {}) {
  try {
    return client.list(resource, name_space, options).items;
  } catch (const kube::ApiError& error) {
    if (error.status() != 403 && error.status() != 404) throw;
    return std::nullopt;
  }
}

ClusterView read_view(kube::Client& client, const sweeps::StartRequest& request) {
  ClusterView view;
  try {
    const auto objects = sweeps::fetch_sweep(client, request.name_space, request.definition.identity.run,
                                             sweeps::WithPods::yes);
    view.trials = sweeps::observe_sweep(objects, std::chrono::system_clock::now()).trials;
  } catch (const Error& error) {
    if (error.code() != ExitCode::not_found) throw;
  }
  view.quotas = list_if_allowed(client, quota_resource, request.name_space);
  const auto pods = list_if_allowed(
      client, kube::resources::pods, "",
      {.label_selector = "", .field_selector = "status.phase!=Succeeded,status.phase!=Failed"});
  if (!pods) return view;
  view.pods = *pods;
  view.nodes = list_if_allowed(client, node_resource, "");
  return view;
}

std::optional<double> mean_minutes(const std::vector<Trial>& trials) {
  double minutes = 0;
  int ended = 0;
  for (const Trial& trial : trials) {
    if (trial.state != sweeps::TrialState::succeeded || !trial.started || !trial.ended) continue;
    minutes += std::chrono::duration<double, std::ratio<60>>(*trial.ended - *trial.started).count();
    ++ended;
  }
  return ended > 0 ? std::optional<double>(minutes / ended) : std::nullopt;
}

SweepPreview preview_of(const sweeps::StartRequest& request, const SubmitHooks& hooks,
                        const ClusterView& view, const PreviewOptions& options) {
  const Definition& sweep = request.definition;
  SweepPreview out;
  std::map<std::string, int> known;
  int next = 0;
  for (const Trial& trial : view.trials) {
    known[trial.hash] = trial.number;
    next = std::max(next, trial.number + 1);
  }
  std::vector<Point> fresh;
  for (const Point& point : sweep.points) {
    const auto there = known.find(sweeps::hash_of(point));
    const bool is_new = there == known.end();
    out.points.push_back({is_new ? next++ : there->second, is_new, point});
    if (is_new) fresh.push_back(point);
  }
  out.groups = sweeps::groups_of(request, hooks, fresh);
  out.fresh = static_cast<int>(fresh.size());
  out.trials = static_cast<int>(known.size()) + out.fresh;
  if (sweep.spec.search.kind == sweeps::Search::Kind::tpe) {
    // The search `tpe` does not know its points in advance, so the preview counts each trial with the needs
    // of the first point.
    out.trials = std::max(static_cast<int>(known.size()), sweeps::planned_trials(sweep));
    out.fresh = out.trials - static_cast<int>(known.size());
    out.groups = sweeps::groups_of(request, hooks, sweep.points);
    out.groups.front().trials = out.fresh;
  }
  for (const sweeps::TrialGroup& group : out.groups) {
    const auto size = [](const sweeps::TrialNeed& need) {
      return std::tuple(need.gpus(), need.requested("cpu"), need.requested("memory"), need.pod_count());
    };
    if (size(out.need) < size(group.need)) out.need = group.need;
  }
  out.minutes = options.trial_minutes;
  if (!out.minutes) {
    out.minutes = mean_minutes(view.trials);
    out.measured = out.minutes.has_value();
  }
  const int most = std::min(sweep.spec.parallel, out.fresh);
  if (view.quotas) out.quota = sweeps::room_in_quotas(*view.quotas, out.need, most);
  if (view.nodes) out.nodes = sweeps::room_on_nodes(*view.nodes, view.pods, out.need, most);
  return out;
}

// The points to print: if there are many points, only the first ones and the last ones.
std::vector<const NumberedPoint*> shown_points(const SweepPreview& preview) {
  std::vector<const NumberedPoint*> out;
  const std::size_t count = preview.points.size();
  const bool all = count <= most_first + most_last + 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (all || i < most_first || i >= count - most_last) out.push_back(&preview.points[i]);
  }
  return out;
}

void print_points(const SweepPreview& preview, Session& session) {
  std::vector<std::string> headers{"TRIAL"}, paths;
  const std::vector<const NumberedPoint*> shown = shown_points(preview);
  for (const NumberedPoint* each : shown) {
    for (const auto& [path, value] : each->point) {
      if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
    }
  }
  headers.insert(headers.end(), paths.begin(), paths.end());
  const bool some_are_there =
      std::any_of(shown.begin(), shown.end(), [](const NumberedPoint* each) { return !each->is_new; });
  if (some_are_there) headers.emplace_back("NEW");
  ui::Table table(headers);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (i == most_first && shown.size() < preview.points.size()) table.add({"..."});
    std::vector<std::string> cells{std::to_string(shown[i]->number)};
    for (const std::string& path : paths) {
      const auto value = shown[i]->point.find(path);
      cells.push_back(value == shown[i]->point.end() ? "" : sweeps::text_of_value(value->second));
    }
    if (some_are_there) cells.emplace_back(shown[i]->is_new ? "new" : "");
    table.add(std::move(cells));
  }
  table.print(session.out, session.out_is_terminal, session.style_out());
}

std::string plural(int count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string need_text(const sweeps::TrialNeed& need) {
  std::string out = fmt::format("{} with {} CPUs, {}", plural(need.pod_count(), "pod"),
                                sweeps::text_of_amount("cpu", need.requested("cpu")),
                                sweeps::text_of_amount("memory", need.requested("memory")));
  if (need.gpus() > 0) out += fmt::format(", {:g} GPUs", need.gpus());
  return out;
}

std::string cost_text(const SweepPreview& preview, int parallel) {
  if (!preview.minutes) return "not known: --trial-minutes says how long a trial takes";
  const sweeps::Cost cost = sweeps::cost_of(preview.groups, *preview.minutes, parallel);
  std::string out = fmt::format("{:.4g} CPU-hours", cost.cpu_hours);
  if (cost.gpu_hours > 0) out += fmt::format(", {:.4g} GPU-hours", cost.gpu_hours);
  return out + fmt::format(", ended after {:.3g} h, with {:.3g} minutes for a trial{}", cost.hours,
                           *preview.minutes, preview.measured ? " as before" : "");
}

std::string room_text(const std::optional<Room>& room, const char* unknown) {
  if (!room) return unknown;
  std::string out = fmt::format("room for {} at a time now", plural(room->trials, "trial"));
  if (!room->limit.empty()) out += "; for more there is too little " + room->limit;
  return out;
}

json room_json(const std::optional<Room>& room) {
  if (!room) return nullptr;
  return {{"trials", room->trials}, {"limit", room->limit.empty() ? json() : json(room->limit)}};
}

json preview_json(const SweepPreview& preview, const Definition& sweep) {
  json points = json::array();
  for (const NumberedPoint* each : shown_points(preview))
    points.push_back({{"trial", each->number}, {"new", each->is_new}, {"parameters", each->point}});
  json out = {{"sweep", sweep.identity.run},
              {"trials", preview.trials},
              {"new", preview.fresh},
              {"parallel", sweep.spec.parallel},
              {"search", sweeps::to_string(sweep.spec.search.kind)},
              {"points", points},
              {"trial",
               {{"pods", preview.need.pod_count()},
                {"cpus", preview.need.requested("cpu")},
                {"memory_bytes", preview.need.requested("memory")},
                {"gpus", preview.need.gpus()},
                {"minutes", preview.minutes ? json(*preview.minutes) : json()}}},
              {"cpu_hours", nullptr},
              {"gpu_hours", nullptr},
              {"hours", nullptr},
              {"quota", room_json(preview.quota)},
              {"nodes", room_json(preview.nodes)}};
  if (!preview.minutes) return out;
  const sweeps::Cost cost = sweeps::cost_of(preview.groups, *preview.minutes, sweep.spec.parallel);
  out["cpu_hours"] = cost.cpu_hours;
  out["gpu_hours"] = cost.gpu_hours;
  out["hours"] = cost.hours;
  return out;
}

}  // namespace

void print_preview(Session& session, kube::Client* client, const sweeps::StartRequest& request,
                   const PreviewOptions& options) {
  const Definition& sweep = request.definition;
  const ClusterView view = client == nullptr ? ClusterView{} : read_view(*client, request);
  const SubmitHooks hooks{.note = {}, .check_interrupted = [&session] { session.check_interrupted(); }};
  const SweepPreview preview = preview_of(request, hooks, view, options);
  if (options.as_json) {
    session.out << json_text(preview_json(preview, sweep), 2) << '\n';
    return;
  }
  print_points(preview, session);
  const ui::Style style = session.style_out();
  const auto field = [&](const char* label, const std::string& value) {
    session.out << style.paint(ui::pad(label, preview_label_width), ui::Color::gray) << printable(value)
                << '\n';
  };
  session.out << '\n';
  field("sweep", sweep.identity.run);
  field("trials",
        fmt::format("{}, {} new, {} at a time", preview.trials, preview.fresh, sweep.spec.parallel));
  if (preview.fresh == 0) return;
  field(preview.groups.size() > 1 ? "at most" : "each", need_text(preview.need));
  field("cost", cost_text(preview, sweep.spec.parallel));
  if (client == nullptr) return;
  field("quota", room_text(preview.quota, view.quotas ? "no quota limits these trials"
                                                      : "not known: resourcequotas cannot be listed"));
  field("nodes", room_text(preview.nodes, "not known: the cluster's nodes or pods cannot be listed"));
}

}  // namespace mlk
