#include "runtime/membership/bounded_wait.h"

#include <algorithm>

namespace mlk::rt {

void BoundedWait::restart(SteadyTime now) {
  since_ = from_ = now;
  next_line_ = now + first_line_after;
}

void BoundedWait::extend(std::chrono::seconds limit, SteadyTime now) {
  from_ = std::min(now, since_ + limit);
}

SteadyTime BoundedWait::next(std::chrono::seconds limit) const {
  return std::min(next_line_, from_ + limit + Milliseconds(1));
}

double BoundedWait::seconds(SteadyTime now) const {
  return std::chrono::duration<double>(now - since_).count();
}

}  // namespace mlk::rt
