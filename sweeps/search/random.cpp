#include "sweeps/search/random.h"

#include <limits>
#include <utility>

#include "sweeps/search/grid.h"
#include "sweeps/search/sobol.h"
#include "sweeps/space/counter_random.h"

namespace mlk::sweeps {
namespace {

constexpr int tries_in_a_row = 1000;
constexpr std::size_t largest_listed = 100'000;  // points of a finite space

Point point_of_sequence(const std::vector<Axis>& axes, std::uint64_t seed, std::uint32_t index) {
  Point point;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Parameter& parameter = axes[i].parameter();
    if (holds(parameter.when, point)) point[parameter.path] = axes[i].value_at(sobol(seed, i, index));
  }
  return point;
}

void shuffle(std::vector<Point>& points, std::uint64_t seed) {
  CounterRandom random(seed, std::numeric_limits<std::uint64_t>::max());
  for (std::size_t left = points.size(); left > 1; --left) {
    const auto chosen = static_cast<std::size_t>(random.uniform() * static_cast<double>(left));
    std::swap(points[left - 1], points[chosen]);
  }
}

}  // namespace

RandomPoints::RandomPoints(const Space& space, std::uint64_t seed)
    : space_(space), seed_(seed), axes_(axes_of(space)) {}

std::optional<Point> RandomPoints::next() {
  std::optional<Point> point = rest_ ? std::nullopt : next_of_sequence();
  if (!point) point = next_of_rest();
  return point;
}

std::optional<Point> RandomPoints::next_of_sequence() {
  for (int i = 0; i < tries_in_a_row; ++i) {
    Point point = point_of_sequence(axes_, seed_, index_++);
    if (!is_left_out(space_, point) && given_.insert(point).second) return point;
  }
  return std::nullopt;
}

std::optional<Point> RandomPoints::next_of_rest() {
  if (!rest_) {
    rest_.emplace();
    const GridSize size = is_finite(space_) ? count_grid(space_) : GridSize{0, false};
    if (size.exact && size.points <= largest_listed) {
      *rest_ = grid_points(space_, largest_listed);
      std::erase_if(*rest_, [&](const Point& point) { return given_.count(point) != 0; });
      shuffle(*rest_, seed_);
    }
  }
  if (rest_->empty()) return std::nullopt;
  Point point = std::move(rest_->back());
  rest_->pop_back();
  return point;
}

std::vector<Point> random_points(const Space& space, std::uint64_t seed, std::size_t count) {
  RandomPoints sequence(space, seed);
  std::vector<Point> points;
  while (points.size() < count) {
    std::optional<Point> point = sequence.next();
    if (!point) break;
    points.push_back(*std::move(point));
  }
  return points;
}

}  // namespace mlk::sweeps
