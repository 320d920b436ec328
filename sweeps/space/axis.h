// The values of a parameter as places in [0, 1), on which the searches work. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/space/space.h"

namespace mlk::sweeps {

// A parameter with a finite number of values has as many cells. They have equal widths, except those of whole
// numbers by their logarithm: there 1 has about twice as many places as 2. Whole numbers and numeric choices
// are sorted by size, so that near places stand for near values.
class Axis {
 public:
  explicit Axis(const Parameter& parameter);  // is referred to, and must live as long

  const Parameter& parameter() const { return *parameter_; }
  std::uint64_t cells() const { return cells_; }  // 0: any number between two bounds
  bool is_ordered() const { return ordered_; }    // whether near places stand for near values

  // A place outside of [0, 1) counts as the nearest one inside.
  nlohmann::json value_at(double place) const;

  // If there are cells: the middle of the cell. Nothing if the parameter cannot have the value.
  std::optional<double> place_of(const nlohmann::json& value) const;

  // For an axis with cells.
  nlohmann::json value_of(std::uint64_t cell) const;
  std::optional<std::uint64_t> cell_of(const nlohmann::json& value) const;
  std::uint64_t cell_at(double place) const;
  double middle_of(std::uint64_t cell) const;
  double start_of(std::uint64_t cell) const;  // of cells(): 1
  double width_of(std::uint64_t cell) const;

 private:
  double place_at(double cells) const;

  const Parameter* parameter_;
  std::vector<nlohmann::json> values_;  // of a choice
  double low_ = 0, high_ = 1;           // of the others; logarithms for log_uniform and log_integer
  std::int64_t first_ = 0;              // of whole numbers
  std::uint64_t cells_ = 0;
  bool ordered_ = true;
};

// One for each parameter of the space, which must live as long.
std::vector<Axis> axes_of(const Space& space);

}  // namespace mlk::sweeps
