#include "cli/run/facts/phase.h"

namespace mlk {

std::string_view to_string(Phase phase) {
  constexpr std::array<std::string_view, all_phases.size()> names{
      "Incomplete", "Queued",  "Scheduling", "Starting", "Running",
      "Restarting", "Stopped", "Succeeded",  "Failed"};  // in the order of Phase
  return names.at(static_cast<std::size_t>(phase));
}

std::optional<Phase> parse_phase(std::string_view text) {
  for (const Phase phase : all_phases) {
    if (to_string(phase) == text) return phase;
  }
  return std::nullopt;
}

bool is_final(Phase phase) { return phase == Phase::succeeded || phase == Phase::failed; }

}  // namespace mlk
