#include "sweeps/space/axis.h"

#include <algorithm>
#include <cmath>

namespace mlk::sweeps {
namespace {

bool are_numbers(const std::vector<nlohmann::json>& values) {
  return std::all_of(values.begin(), values.end(), [](const auto& value) { return value.is_number(); });
}

}  // namespace

Axis::Axis(const Parameter& parameter) : parameter_(&parameter), low_(parameter.low), high_(parameter.high) {
  switch (parameter.kind) {
    case Parameter::Kind::choice:
      values_ = parameter.values;
      cells_ = values_.size();
      ordered_ = are_numbers(values_);
      if (ordered_) std::sort(values_.begin(), values_.end());
      break;
    case Parameter::Kind::uniform:
      break;
    case Parameter::Kind::log_uniform:
      low_ = std::log(low_);
      high_ = std::log(high_);
      break;
    case Parameter::Kind::integer:
    case Parameter::Kind::log_integer:
      low_ = std::clamp(std::ceil(low_), -largest_whole, largest_whole);
      high_ = std::clamp(std::floor(high_), low_, std::max(low_, largest_whole));
      first_ = static_cast<std::int64_t>(low_);
      cells_ = static_cast<std::uint64_t>(high_ - low_) + 1;
      if (parameter.kind == Parameter::Kind::integer) break;
      // The axis is logarithmic. The cell of a number n reaches from log(n - 0.5) to log(n + 0.5), so it has
      // a width of about 1/n.
      low_ = std::log(low_ - 0.5);
      high_ = std::log(high_ + 0.5);
      break;
  }
}

std::uint64_t Axis::cell_at(double place) const {
  const double inside = std::clamp(place, 0.0, 1.0);
  const double cell =
      parameter_->kind == Parameter::Kind::log_integer
          ? std::round(std::exp(low_ * (1 - inside) + high_ * inside)) - static_cast<double>(first_)
          : std::floor(inside * static_cast<double>(cells_));
  return std::min(static_cast<std::uint64_t>(std::max(cell, 0.0)), cells_ - 1);
}

// `cells`: the distance from the start of the first cell, in units of cells.
double Axis::place_at(double cells) const {
  if (parameter_->kind != Parameter::Kind::log_integer) return cells / static_cast<double>(cells_);
  return (std::log(static_cast<double>(first_) - 0.5 + cells) - low_) / (high_ - low_);
}

double Axis::middle_of(std::uint64_t cell) const { return place_at(static_cast<double>(cell) + 0.5); }

double Axis::start_of(std::uint64_t cell) const { return place_at(static_cast<double>(cell)); }

double Axis::width_of(std::uint64_t cell) const {
  if (parameter_->kind != Parameter::Kind::log_integer) return 1 / static_cast<double>(cells_);
  return start_of(cell + 1) - start_of(cell);
}

nlohmann::json Axis::value_of(std::uint64_t cell) const {
  if (parameter_->kind == Parameter::Kind::choice) return values_[cell];
  return first_ + static_cast<std::int64_t>(cell);
}

std::optional<std::uint64_t> Axis::cell_of(const nlohmann::json& value) const {
  if (parameter_->kind == Parameter::Kind::choice) {
    const auto found = std::find(values_.begin(), values_.end(), value);
    if (found == values_.end()) return std::nullopt;
    return static_cast<std::uint64_t>(found - values_.begin());
  }
  if (!value.is_number()) return std::nullopt;
  const double cell = value.get<double>() - static_cast<double>(first_);
  if (!(cell >= 0 && cell < static_cast<double>(cells_)) || cell != std::floor(cell)) return std::nullopt;
  return static_cast<std::uint64_t>(cell);
}

nlohmann::json Axis::value_at(double place) const {
  if (cells_ != 0) return value_of(cell_at(place));
  const double inside = std::clamp(place, 0.0, 1.0);
  const double value = low_ * (1 - inside) + high_ * inside;  // high - low may overflow
  return std::clamp(parameter_->kind == Parameter::Kind::log_uniform ? std::exp(value) : value,
                    parameter_->low, parameter_->high);
}

std::optional<double> Axis::place_of(const nlohmann::json& value) const {
  if (cells_ != 0) {
    const auto cell = cell_of(value);
    return cell ? std::optional(middle_of(*cell)) : std::nullopt;
  }
  if (!value.is_number()) return std::nullopt;
  const auto number = value.get<double>();
  if (!(number >= parameter_->low && number <= parameter_->high)) return std::nullopt;
  if (low_ == high_) return 0.5;
  const double scaled = parameter_->kind == Parameter::Kind::log_uniform ? std::log(number) : number;
  return std::clamp((scaled - low_) / (high_ - low_), 0.0, 1.0);
}

std::vector<Axis> axes_of(const Space& space) { return {space.parameters.begin(), space.parameters.end()}; }

}  // namespace mlk::sweeps
