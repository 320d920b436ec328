#include "sweeps/search/grid.h"

#include <algorithm>
#include <utility>

#include "cli/util/error.h"
#include "sweeps/space/axis.h"

namespace mlk::sweeps {
namespace {

constexpr std::uint64_t most_points = 1'000'000'000'000'000'000;
constexpr std::uint64_t most_cases = 1'000'000;
constexpr std::uint64_t most_left_out = 2'000'000;

bool has_values(const Parameter& parameter) {
  return parameter.kind == Parameter::Kind::choice || is_whole(parameter.kind);
}

void check_finite(const Space& space) {
  for (const Parameter& parameter : space.parameters) {
    if (!has_values(parameter))
      throw Error(ExitCode::usage,
                  "parameter '" + parameter.path + "' is a range of numbers, which a grid cannot list",
                  "write a list of values for it, or search: random");
  }
}

std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) { return std::min(a + b, most_points); }

std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  return a != 0 && b > most_points / a ? most_points : a * b;
}

// A value of a parameter. It represents `count` values that every condition treats alike.
struct Case {
  nlohmann::json value;
  std::uint64_t count;
};

// Each value that a condition names is a case; all other values together are one case.
std::vector<Case> cases_of(const Parameter& parameter, const std::vector<const Condition*>& conditions) {
  const Axis axis(parameter);
  std::vector<std::uint64_t> named;  // cells
  for (const Condition* condition : conditions) {
    if (condition->path != parameter.path) continue;
    for (const nlohmann::json& value : condition->values) {
      if (const auto cell = axis.cell_of(value)) named.push_back(*cell);
    }
  }
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());
  std::vector<Case> cases;
  std::uint64_t unnamed = 0;  // the first cell that no condition names
  for (const std::uint64_t cell : named) {
    cases.push_back({axis.value_of(cell), 1});
    if (cell == unnamed) ++unnamed;
  }
  if (named.size() < axis.cells()) cases.push_back({axis.value_of(unnamed), axis.cells() - named.size()});
  return cases;
}

std::vector<const Condition*> conditions_of(const Space& space) {
  std::vector<const Condition*> all;
  for (const Parameter& parameter : space.parameters) {
    for (const Condition& condition : parameter.when) all.push_back(&condition);
  }
  for (const auto& exception : space.except) {
    for (const Condition& condition : exception) all.push_back(&condition);
  }
  return all;
}

class Counter {
 public:
  explicit Counter(const Space& space) : space_(space) {
    const std::vector<const Condition*> conditions = conditions_of(space);
    for (const Parameter& parameter : space.parameters) cases_.push_back(cases_of(parameter, conditions));
  }

  GridSize count() {
    Point none;
    const std::uint64_t points = from(0, none, 1);
    return {points, points < most_points && visits_ <= most_cases};
  }

 private:
  // The number of points that begin with `point`. `point` itself represents `each` points.
  std::uint64_t from(std::size_t depth, Point& point, std::uint64_t each) {
    if (++visits_ > most_cases || is_left_out(space_, point)) return 0;
    if (depth == cases_.size()) return each;
    const Parameter& parameter = space_.parameters[depth];
    if (!holds(parameter.when, point)) return from(depth + 1, point, each);
    std::uint64_t points = 0;
    for (const Case& one : cases_[depth]) {
      point[parameter.path] = one.value;
      points = saturating_sum(points, from(depth + 1, point, saturating_product(each, one.count)));
      if (points == most_points) break;
    }
    point.erase(parameter.path);
    return points;
  }

  const Space& space_;
  std::vector<std::vector<Case>> cases_;
  std::uint64_t visits_ = 0;
};

class Lister {
 public:
  Lister(const Space& space, std::size_t limit) : space_(space), axes_(axes_of(space)), limit_(limit) {}

  std::vector<Point> list() {
    Point none;
    if (limit_ > 0) from(0, none);
    return std::move(points_);
  }

 private:
  // `point` has values only for the first `depth` parameters. If `point` is excluded, all points that begin
  // with it are excluded too, and the search skips them.
  void from(std::size_t depth, Point& point) {
    if (is_left_out(space_, point)) return count_left_out();
    if (depth == axes_.size()) {
      points_.push_back(point);
      return;
    }
    const Parameter& parameter = space_.parameters[depth];
    if (!holds(parameter.when, point)) return from(depth + 1, point);
    const std::uint64_t values = axes_[depth].cells();
    for (std::uint64_t i = 0; i < values && points_.size() < limit_; ++i) {
      const bool is_choice = parameter.kind == Parameter::Kind::choice;  // an axis would sort the values
      point[parameter.path] = is_choice ? parameter.values[i] : axes_[depth].value_of(i);
      from(depth + 1, point);
    }
    point.erase(parameter.path);
  }

  void count_left_out() {
    if (++left_out_ > most_left_out)
      throw Error(ExitCode::usage, "the grid leaves out too many combinations by 'except' to list the others",
                  "take these values out of the parameters");
  }

  const Space& space_;
  std::vector<Axis> axes_;
  std::size_t limit_;
  std::vector<Point> points_;
  std::uint64_t left_out_ = 0;
};

}  // namespace

bool is_finite(const Space& space) { return std::ranges::all_of(space.parameters, has_values); }

GridSize count_grid(const Space& space) {
  check_finite(space);
  return Counter(space).count();
}

std::vector<Point> grid_points(const Space& space, std::size_t limit) {
  check_finite(space);
  return Lister(space, limit).list();
}

}  // namespace mlk::sweeps
