// Maps the values of a parameter to places from 0 to 1, on which the searches work. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/space/space.h"

namespace mlk::sweeps {

// If a parameter has a finite number of values, its axis has one cell for each value. All cells of an axis
// are equally wide, except those of logarithmic whole numbers: for example, the cell of 1 is about twice as
// wide as the cell of 2. Whole numbers and numeric choices are sorted by size, so that near places represent
// near values.
class Axis {
 public:
  explicit Axis(const Parameter& parameter);  // the axis refers to the parameter, which must outlive it

  const Parameter& parameter() const { return *parameter_; }
  std::uint64_t cells() const { return cells_; }  // 0: the value is any number between two bounds
  bool is_ordered() const { return ordered_; }    // whether near places represent near values

  // A place below 0 counts as 0, and a place above 1 as 1.
  nlohmann::json value_at(double place) const;

  // The place of a value; on an axis with cells, the middle of the value's cell. Nothing if the parameter
  // cannot have the value.
  std::optional<double> place_of(const nlohmann::json& value) const;

  // The functions below are only for an axis with cells.
  nlohmann::json value_of(std::uint64_t cell) const;
  std::optional<std::uint64_t> cell_of(const nlohmann::json& value) const;
  std::uint64_t cell_at(double place) const;
  double middle_of(std::uint64_t cell) const;
  double start_of(std::uint64_t cell) const;  // start_of(cells()) is 1
  double width_of(std::uint64_t cell) const;

 private:
  double place_at(double cells) const;

  const Parameter* parameter_;
  std::vector<nlohmann::json> values_;  // the values of a choice
  double low_ = 0, high_ = 1;  // the bounds of other kinds; their logarithms for log_uniform and log_integer
  std::int64_t first_ = 0;     // the smallest of the whole numbers
  std::uint64_t cells_ = 0;
  bool ordered_ = true;
};

// One axis for each parameter of the space. The space must outlive the axes.
std::vector<Axis> axes_of(const Space& space);

}  // namespace mlk::sweeps
