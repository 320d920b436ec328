#include "sweeps/space/trial.h"

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

constexpr char never_reported_words[] = "never reported ", diverged_words[] = "reported no finite ";

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

std::string never_reported(const std::string& metric, const std::string& near_miss) {
  return never_reported_words + metric + (near_miss.empty() ? "" : ": " + near_miss);
}
std::string diverged(const std::string& metric) { return diverged_words + metric; }

bool is_verdict(std::string_view failure) {
  return failure.starts_with(never_reported_words) || failure.starts_with(diverged_words);
}

std::string hash_of(const Point& point) {
  constexpr std::size_t length = 12;
  return sha256_base32(json_text(normal_form(point)), length);
}

}  // namespace mlk::sweeps
