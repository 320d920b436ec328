// The values of a parameter as places in [0, 1), on which the searches work. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/space.h"

namespace mlk::sweeps {

// A parameter with so many values has as many cells of equal width. Whole numbers and choices among numbers
// lie in order of size, so that places near each other stand for values near each other.
class Axis {
 public:
  explicit Axis(const Parameter& parameter);  // is referred to, and must live as long

  const Parameter& parameter() const { return *parameter_; }
  std::uint64_t cells() const { return cells_; }  // 0: any number between two bounds
  bool is_ordered() const { return ordered_; }    // whether near places stand for values near each other

  // Places outside of [0, 1) are taken for the nearest one inside.
  nlohmann::json value_at(double place) const;

  // The middle of the cell when there are cells. Nothing when the parameter cannot have the value.
  std::optional<double> place_of(const nlohmann::json& value) const;

  // Of an axis with cells.
  nlohmann::json value_of(std::uint64_t cell) const;
  std::optional<std::uint64_t> cell_of(const nlohmann::json& value) const;
  std::uint64_t cell_at(double place) const;
  double middle_of(std::uint64_t cell) const;

 private:
  const Parameter* parameter_;
  std::vector<nlohmann::json> values_;  // of a choice
  double low_ = 0, high_ = 1;           // of the others; logarithms for log_uniform
  std::uint64_t cells_ = 0;
  bool ordered_ = true;
};

// One for each parameter of the space, which must live as long.
std::vector<Axis> axes_of(const Space& space);

}  // namespace mlk::sweeps
