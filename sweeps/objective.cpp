#include "sweeps/objective.h"

namespace mlk::sweeps {

bool is_better(const Objective& objective, double a, double b) {
  return objective.goal == Objective::Goal::minimize ? a < b : a > b;
}

}  // namespace mlk::sweeps
