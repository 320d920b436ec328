#include "cli/run/read/late_lines.h"

#include <csignal>
#include <thread>

#include "cli/run/facts/program_error.h"
#include "cli/run/state/status.h"

namespace mlk {

using std::chrono::steady_clock;

bool may_have_late_lines(const std::optional<Time>& ended, Time now) {
  constexpr std::chrono::seconds young{10};
  return ended && now - *ended < young && *ended - now < young;
}

bool may_complete_record(const RunStatus& status, Time now) {
  if (status.phase == Phase::succeeded)
    return status.result.is_null() && may_have_late_lines(status.ended, now);
  if (status.phase != Phase::failed || !status.first_failure) return false;
  const Failure& failure = *status.first_failure;
  const bool by_itself = !failure.disruption && failure.exit_code > 0 && failure.signal != SIGKILL;
  return by_itself && !program_error(failure.message).is_found && may_have_late_lines(failure.at, now);
}

bool read_late_lines(const std::function<bool()>& lacks, const std::function<void()>& read,
                     steady_clock::time_point deadline) {
  constexpr int most_readings = 5;
  constexpr std::chrono::milliseconds pause{400};
  for (int readings = 0; readings < most_readings && lacks(); ++readings) {
    if (steady_clock::now() + pause >= deadline) return false;
    std::this_thread::sleep_for(pause);
    read();
  }
  return true;
}

}  // namespace mlk
