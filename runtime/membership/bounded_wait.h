// A wait for peers, with a time limit, and with a log line every few seconds. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/exit_code.h"
#include "runtime/membership/membership.h"
#include "runtime/transport/event.h"

namespace mlk::rt {

class BoundedWait {
 public:
  void restart(SteadyTime now);
  // The limit is measured from now on, but the whole wait lasts at most twice the limit.
  void extend(std::chrono::seconds limit, SteadyTime now);
  // Logs the names of the missing peers when a log line is due. Returns Failure{peers_lost} after the limit.
  // lines: what takes the log line: Effects, or a turn.
  template <typename Lines>
  std::optional<Failure> missing(const std::vector<std::string>& who, std::chrono::seconds limit,
                                 SteadyTime now, Lines& lines) {
    if (now >= next_line_) {
      lines.log(waiting_line(who, seconds(now)));
      next_line_ = now + line_interval;
    }
    if (now - from_ <= limit) return {};
    return Failure(ExitCode::peers_lost, "gave up " + waiting_line(who, seconds(now)));
  }
  // The next time at which missing() logs or fails. Earlier calls have no effect.
  SteadyTime next(std::chrono::seconds limit) const;
  double seconds(SteadyTime now) const;  // since the last restart()

 private:
  static constexpr Milliseconds first_line_after{2000}, line_interval{10000};

  SteadyTime since_, next_line_;
  SteadyTime from_;  // the limit is measured from here
};

}  // namespace mlk::rt
