// The phases of a run, and their names. Sweeps have the same phases.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace mlk {

enum class Phase {
  incomplete,
  queued,
  scheduling,
  starting,
  running,
  restarting,
  stopped,
  succeeded,
  failed
};
inline constexpr std::array all_phases{Phase::incomplete, Phase::queued,    Phase::scheduling,
                                       Phase::starting,   Phase::running,   Phase::restarting,
                                       Phase::stopped,    Phase::succeeded, Phase::failed};
std::string_view to_string(Phase phase);                  // "Incomplete", "Queued" ...
std::optional<Phase> parse_phase(std::string_view text);  // the inverse of to_string()
bool is_final(Phase phase);                               // succeeded, failed; stopped runs may be resumed

}  // namespace mlk
