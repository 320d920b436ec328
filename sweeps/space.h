// The space that a sweep searches: parameters, the values that each may have, and the combinations that are
// left out. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace mlk::sweeps {

// One choice of values, by the path of the parameter: {"train.optimizer.lr": 0.1}. A parameter whose
// conditions do not hold is absent.
using Point = std::map<std::string, nlohmann::json>;

// Holds for a point in which `path` is present and has one of `values`.
struct Condition {
  std::string path;
  std::vector<nlohmann::json> values;
};

struct Parameter {
  enum class Kind {
    choice,       // one of `values`
    uniform,      // any number from low to high
    log_uniform,  // the same, its logarithm uniform; low is above 0
    integer,      // a whole number from low to high
  };
  std::string path;  // of the experiment, "train.optimizer.lr", or a name of the user's own
  Kind kind = Kind::choice;
  std::vector<nlohmann::json> values;  // of a choice: at least one, distinct, in the order written
  double low = 0, high = 0;            // of the others, both included
  std::vector<Condition> when;         // all must hold; on parameters that stand earlier in the space
};

struct Space {
  std::vector<Parameter> parameters;
  std::vector<std::vector<Condition>>
      except;  // points for which all conditions of an entry hold are left out
};

// Whether all of them hold; also when there are none.
bool holds(const std::vector<Condition>& conditions, const Point& point);

bool is_left_out(const Space& space, const Point& point);

}  // namespace mlk::sweeps
