#include "cli/run/facts/phase.h"

namespace mlk {

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::incomplete:
      return "Incomplete";
    case Phase::queued:
      return "Queued";
    case Phase::scheduling:
      return "Scheduling";
    case Phase::starting:
      return "Starting";
    case Phase::running:
      return "Running";
    case Phase::restarting:
      return "Restarting";
    case Phase::stopped:
      return "Stopped";
    case Phase::succeeded:
      return "Succeeded";
    case Phase::failed:
      return "Failed";
  }
  return "Incomplete";
}

std::optional<Phase> parse_phase(std::string_view text) {
  for (const Phase phase : all_phases) {
    if (to_string(phase) == text) return phase;
  }
  return std::nullopt;
}

bool is_final(Phase phase) { return phase == Phase::succeeded || phase == Phase::failed; }

}  // namespace mlk
