#include "runtime/membership/bounded_wait.h"

#include <algorithm>

#include "runtime/membership/membership.h"

namespace mlk::rt {
namespace {

constexpr Milliseconds first_line_after{2000}, line_interval{10000};

}  // namespace

void BoundedWait::restart(SteadyTime now) {
  since_ = from_ = now;
  next_line_ = now + first_line_after;
}

void BoundedWait::extend(std::chrono::seconds limit, SteadyTime now) {
  from_ = std::min(now, since_ + limit);
}

std::optional<Failure> BoundedWait::missing(const std::vector<std::string>& who, std::chrono::seconds limit,
                                            SteadyTime now, Effects& effects) {
  if (now >= next_line_) {
    effects.log(waiting_line(who, seconds(now)));
    next_line_ = now + line_interval;
  }
  if (now - from_ <= limit) return {};
  return Failure(ExitCode::peers_lost, "gave up " + waiting_line(who, seconds(now)));
}

SteadyTime BoundedWait::next(std::chrono::seconds limit) const {
  return std::min(next_line_, from_ + limit + Milliseconds(1));
}

double BoundedWait::seconds(SteadyTime now) const {
  return std::chrono::duration<double>(now - since_).count();
}

}  // namespace mlk::rt
