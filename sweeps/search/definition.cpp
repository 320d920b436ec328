#include "sweeps/search/definition.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run/inputs/missing_files.h"
#include "cli/util/error.h"
#include "cli/util/json.h"
#include "cli/util/json_path.h"
#include "sweeps/search/decide.h"
#include "sweeps/search/grid.h"
#include "sweeps/search/identity.h"
#include "sweeps/search/random.h"
#include "sweeps/space/ledger.h"
#include "sweeps/space/names.h"
#include "sweeps/space/points_file.h"
#include "sweeps/space/trial_values.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

void refuse_too_many(double points) {
  throw Error(
      ExitCode::usage,
      fmt::format("the sweep has {:.0f} points; a sweep has at most {}", points, most_points_of_sweep),
      "try fewer values, or some of them with search: {random: {trials: 100}}");
}

// Reads the points file of the sweep. Adds its columns to the space, as parameters with their full paths.
std::vector<Point> read_listed(const ExperimentFile& file, const PrepareOptions& options, const Names& names,
                               Spec& spec) {
  Problems problems;
  if (!is_points_file(spec.points_file)) {
    problems.add(
        spec.points_place,
        fmt::format("sweep.points must name a .csv, .tsv, .json or .yaml file, not '{}'", spec.points_file));
    problems.throw_if_any();
  }
  const ExperimentFile listed =
      read_file_beside(file, options, spec.points_file, "sweep.points", longest_points_file);
  std::optional<PointsFile> read = read_points(listed.text, listed.name, problems);
  problems.throw_if_any();
  std::map<std::string, std::string> paths;
  for (const auto& [column, place] : read->columns) {
    if (const auto path = names.resolve(column, place, problems)) {
      paths[column] = *path;
      spec.space.parameters.push_back({*path, Parameter::Kind::choice, {}, 0, 0, {}});
    }
  }
  names.check_all_given(spec.space.parameters, problems);
  problems.throw_if_any();
  std::vector<Point> points;
  std::map<std::string, std::set<json>> values;
  for (const Point& point : read->points) {
    Point out;
    for (const auto& [column, value] : point) {
      out[paths.at(column)] = value;
      values[paths.at(column)].insert(value);
    }
    points.push_back(std::move(out));
  }
  for (Parameter& parameter : spec.space.parameters)
    parameter.values.assign(values[parameter.path].begin(), values[parameter.path].end());
  for (const auto& [column, place] : read->columns) {
    for (Parameter& parameter : spec.space.parameters) {
      if (parameter.path != paths.at(column)) continue;
      parameter.written = read->written[column];
      parameter.place = place;
      parameter.places = std::move(read->values[column]);
    }
  }
  return points;
}

// Returns `times` copies of each point. The first copy equals the point without `repeat`, so that a user can
// add `repeat` to a sweep later.
std::vector<Point> repeated(const std::vector<Point>& points, int times, const std::string& path,
                            std::int64_t first) {
  std::vector<Point> out;
  out.reserve(points.size() * static_cast<std::size_t>(times));
  for (const Point& point : points) {
    out.push_back(point);
    for (int i = 1; i < times; ++i) {
      out.push_back(point);
      out.back()[path] = first + i;
    }
  }
  return out;
}

std::vector<Point> searched(const Spec& spec, std::vector<Point> listed) {
  switch (spec.search.kind) {
    case Search::Kind::list:
      std::erase_if(listed, [&](const Point& point) { return is_left_out(spec.space, point); });
      return listed;
    case Search::Kind::random:
      return random_points(spec.space, spec.search.seed, static_cast<std::size_t>(spec.search.trials));
    case Search::Kind::tpe: {
      std::vector<Point> first;
      if (const std::optional<Point> point = suggest(spec, {})) first.push_back(*point);
      return first;
    }
    case Search::Kind::grid:
      break;
  }
  const GridSize size = count_grid(spec.space);
  if (size.points > most_points_of_sweep) refuse_too_many(static_cast<double>(size.points));
  return grid_points(spec.space, most_points_of_sweep);
}

// Refuses points that are too long for the ledger. If even the longest possible point of the space would fit,
// checks no point. Otherwise checks each point; with search tpe, which chooses most of its points later,
// refuses the sweep without a check.
void refuse_long_points(const Spec& spec, const std::vector<Point>& points) {
  constexpr std::size_t longest_number = 30, longest_repeat = 40;
  const auto bytes = [](const json& value) { return json_text(value).size(); };
  std::size_t longest = longest_repeat;
  for (const Parameter& parameter : spec.space.parameters) {
    std::size_t value = longest_number;
    for (const json& each : parameter.values) value = std::max(value, bytes(each));
    longest += bytes(parameter.path) + value + 2;
  }
  if (longest <= longest_point) return;
  const bool too_long = spec.search.kind == Search::Kind::tpe ||
                        std::any_of(points.begin(), points.end(),
                                    [&](const Point& point) { return bytes(json(point)) > longest_point; });
  if (!too_long) return;
  throw Error(ExitCode::usage,
              fmt::format("the values of a point of this sweep take more than {} KiB", longest_point / 1024),
              "give long values names of their own in the program, and sweep over the names");
}

// Refuses parameters that change the files or the code. Files and code travel with the sweep, and all trials
// of the sweep use the same files and code.
void refuse_what_travels(const Spec& spec) {
  for (const Parameter& parameter : spec.space.parameters) {
    const std::string& path = parameter.path;
    const bool of_files = path.starts_with("data.") && path.ends_with(".files");
    if (!of_files && path != "code" && !path.starts_with("code.")) continue;
    throw Error(ExitCode::usage,
                fmt::format("a sweep cannot vary {}: its trials have the same files and code", path),
                "let them all travel, and give the program the name of one: ${sweep.NAME} in run: or env:");
  }
}

std::int64_t seed_of(const YamlNode& base) {
  const YamlNode* train = base.find("train");
  const YamlNode* seed = train == nullptr ? nullptr : train->find("seed");
  const json value = seed == nullptr ? json() : to_json(*seed);
  return value.is_number_integer() ? value.get<std::int64_t>() : 1;
}

// Whether the volume of the checkpoints outlives the pods of a trial.
bool keeps_checkpoints(const Experiment& experiment) {
  const json& volume = at_path(experiment.effective, {"checkpoint", "volume"});
  return volume.is_object() && !volume.empty() && !volume.contains("emptyDir");
}

// Reads from the experiment what early stopping needs: the length of a whole trial, in steps or epochs, and
// whether trials can be paused.
void fit_stop(const Experiment& first, Spec& spec) {
  spec.stop.resumes = keeps_checkpoints(first);
  if (spec.stop.rule == EarlyStop::Rule::none) return;
  const json& train = at_path(first.effective, {"train"});
  const bool by_epochs = at_path(train, {"epochs"}).is_number();
  if (by_epochs && spec.objective) spec.objective->position = "epoch";
  if (spec.stop.rule != EarlyStop::Rule::asha) return;
  AshaOptions& asha = spec.stop.asha;
  const char* unit = by_epochs ? "epochs" : "steps";
  const std::int64_t whole = count_of(train, {unit}, 0);
  const bool varies = std::ranges::any_of(spec.space.parameters, [](const Parameter& parameter) {
    return parameter.path == "train.steps" || parameter.path == "train.epochs";
  });
  if (asha.max == 0 && !varies) asha.max = whole;
  if (asha.max == 0)
    throw Error(ExitCode::usage, "stop asha needs max, how long a whole trial is",
                "for example: {asha: {min: 100, max: 1000}}");
  if (whole > 0 && !varies && asha.max != whole)
    throw Error(ExitCode::usage,
                fmt::format("stop asha has max {}, but a trial trains for {} {}", asha.max, whole, unit),
                "leave max out of sweep.stop");
  if (asha.max <= asha.min)
    throw Error(ExitCode::usage,
                fmt::format("stop asha has min {}, but a whole trial has {} {}", asha.min, asha.max, unit));
}

}  // namespace

std::vector<Point> points_of(const Spec& spec, std::vector<Point> listed, bool trains, std::int64_t seed) {
  const std::vector<Point> points = searched(spec, std::move(listed));
  if (points.empty())
    throw Error(ExitCode::usage, "the sweep has no points: everything is left out", "see sweep.except");
  const double all = static_cast<double>(points.size()) * spec.repeat;
  if (all > static_cast<double>(most_points_of_sweep)) refuse_too_many(all);
  const std::string path = trains ? "train.seed" : "repeat";
  const bool taken =
      std::ranges::find(spec.space.parameters, path, &Parameter::path) != spec.space.parameters.end();
  if (taken && spec.repeat > 1) {
    throw Error(ExitCode::usage, fmt::format("sweep.repeat varies {0}, which is a parameter already", path),
                "leave one of them out");
  }
  refuse_long_points(spec, points);
  return repeated(points, spec.repeat, path, trains ? seed : 1);
}

int planned_trials(const Definition& definition) {
  return definition.spec.search.kind == Search::Kind::tpe ? definition.spec.search.trials
                                                          : static_cast<int>(definition.points.size());
}

std::string why_fewer_points(const Definition& definition) {
  const Search& search = definition.spec.search;
  const auto wanted = static_cast<std::uint64_t>(search.trials);
  std::uint64_t points = wanted;
  if (search.kind == Search::Kind::tpe) {  // tpe chooses most points later
    if (!is_finite(definition.spec.space)) return "";
    const GridSize size = count_grid(definition.spec.space);
    if (size.exact) points = size.points;
  } else if (search_kind(search.kind).has_trials) {
    points = definition.points.size() / static_cast<std::size_t>(definition.spec.repeat);
  }
  if (points >= wanted) return "";
  return fmt::format("search {} finds only {} different {}, and tries {} instead of {}",
                     to_string(search.kind), points, points == 1 ? "point" : "points",
                     points == 1 ? "it" : "these", wanted);
}

Definition define_sweep(const ExperimentFile& file, const PrepareOptions& options,
                        const std::vector<std::string>& words, const Templates& templates) {
  const FileContext file_context = file_context_of(file, options);
  Problems problems;
  Definition out;
  out.base = parse_experiment(file.text, file.name, options.overrides, file_context, problems);
  out.spec = extract_spec(out.base, words, problems);
  problems.throw_if_any(fmt::format("`{}` describes every key", file_context.manual));
  std::vector<Point> listed;
  if (!out.spec.points_file.empty()) listed = read_listed(file, options, Names(out.base), out.spec);
  refuse_what_travels(out.spec);
  out.points = points_of(out.spec, std::move(listed), out.base.find("train") != nullptr, seed_of(out.base));
  const TemplateNames template_names = templates.names();
  out.first = Experiments(out.base, out.spec.space, template_names, file_context).of(out.points.front());
  fit_stop(out.first, out.spec);
  out.name = out.first.name;
  out.files = read_files(file, options, out.first, out.spec.points_file);
  out.warnings = advice_on_program(out.first, out.files, file.folder);
  out.identity = identify_sweep(out.name, out.base, out.spec, digests_of(out.first, out.files), templates);
  out.kin = kin_of_sweep(out.base, out.spec, templates);
  out.files_of = out.identity.run;
  return out;
}

}  // namespace mlk::sweeps
