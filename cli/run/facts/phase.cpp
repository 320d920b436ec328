#include "cli/run/facts/phase.h"

#include <array>
#include <utility>

namespace mlk {
namespace {

constexpr std::array<std::pair<Phase, std::string_view>, 9> phase_names{{{Phase::incomplete, "Incomplete"},
                                                                         {Phase::queued, "Queued"},
                                                                         {Phase::scheduling, "Scheduling"},
                                                                         {Phase::starting, "Starting"},
                                                                         {Phase::running, "Running"},
                                                                         {Phase::restarting, "Restarting"},
                                                                         {Phase::stopped, "Stopped"},
                                                                         {Phase::succeeded, "Succeeded"},
                                                                         {Phase::failed, "Failed"}}};

}  // namespace

std::string_view to_string(Phase phase) {
  for (const auto& [value, name] : phase_names) {
    if (value == phase) return name;
  }
  return "Incomplete";
}

std::optional<Phase> parse_phase(std::string_view text) {
  for (const auto& [value, name] : phase_names) {
    if (name == text) return value;
  }
  return std::nullopt;
}

bool is_final(Phase phase) { return phase == Phase::succeeded || phase == Phase::failed; }

}  // namespace mlk
