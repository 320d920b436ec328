#include "cli/run/read/late_lines.h"

#include <thread>

namespace mlk {

using std::chrono::steady_clock;

bool may_have_late_lines(const std::optional<Time>& ended, Time now) {
  constexpr std::chrono::seconds young{10};
  return ended && now - *ended < young && *ended - now < young;
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
