// A wait for peers: told of in the log every few seconds, and bounded. Pure.
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
  // The limit counts from now on, but the whole wait lasts no longer than twice the limit.
  void extend(std::chrono::seconds limit, SteadyTime now);
  // Names the missing peers in the log, if it is time for it. Beyond the limit: Failure{peers_lost}.
  std::optional<Failure> missing(const std::vector<std::string>& who, std::chrono::seconds limit,
                                 SteadyTime now, Effects& effects);
  // When missing() is to be called next; earlier calls do nothing.
  SteadyTime next(std::chrono::seconds limit) const;
  double seconds(SteadyTime now) const;  // since the last restart()

 private:
  SteadyTime since_, next_line_;
  SteadyTime from_;  // the limit counts from here
};

}  // namespace mlk::rt
