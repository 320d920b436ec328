#include "sweeps/trial.h"

#include <array>

#include "cli/util/hash.h"
#include "cli/util/json.h"

namespace mlk::sweeps {
namespace {

constexpr std::array<std::pair<TrialState, std::string_view>, 5> trial_states{
    {{TrialState::waiting, "Waiting"},
     {TrialState::running, "Running"},
     {TrialState::succeeded, "Succeeded"},
     {TrialState::failed, "Failed"},
     {TrialState::stopped, "Stopped"}}};

}  // namespace

std::string_view to_string(TrialState state) {
  for (const auto& [each, text] : trial_states) {
    if (each == state) return text;
  }
  return "";
}

std::optional<TrialState> parse_trial_state(std::string_view text) {
  for (const auto& [each, name] : trial_states) {
    if (name == text) return each;
  }
  return std::nullopt;
}

bool has_ended(TrialState state) {
  return state == TrialState::succeeded || state == TrialState::failed || state == TrialState::stopped;
}

std::string hash_of(const Point& point) {
  constexpr std::size_t length = 12;
  return sha256_base32(json_text(nlohmann::json(point)), length);
}

}  // namespace mlk::sweeps
