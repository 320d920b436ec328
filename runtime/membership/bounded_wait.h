// A wait for peers that has a limit and writes to the log every few seconds. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/exit_code.h"
#include "runtime/membership/effects.h"
#include "runtime/transport/event.h"

namespace mlk::rt {

class BoundedWait {
 public:
  void restart(SteadyTime now);
  // The limit is measured from now on, but the whole wait lasts at most twice the limit.
  void extend(std::chrono::seconds limit, SteadyTime now);
  // Logs the names of the missing peers when a log line is due. Returns Failure{peers_lost} after the limit.
  std::optional<Failure> missing(const std::vector<std::string>& who, std::chrono::seconds limit,
                                 SteadyTime now, Effects& effects);
  // The next time at which missing() logs or fails. Earlier calls have no effect.
  SteadyTime next(std::chrono::seconds limit) const;
  double seconds(SteadyTime now) const;  // since the last restart()

 private:
  SteadyTime since_, next_line_;
  SteadyTime from_;  // the limit is measured from here
};

}  // namespace mlk::rt
