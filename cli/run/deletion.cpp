#include "cli/run/deletion.h"

#include <chrono>

#include <nlohmann/json.hpp>

#include "cli/run/facts.h"

namespace mlk {

using std::chrono::seconds;

std::optional<Time> deletion_of(const nlohmann::json& object) {
  const std::optional<Time> deadline = time_of(object, {"metadata", "deletionTimestamp"});
  if (!deadline) return std::nullopt;
  return *deadline - seconds(number_of(object, {"metadata", "deletionGracePeriodSeconds"}, 0));
}

bool came_with_deletion(const std::optional<Time>& failed, const std::optional<Time>& deleted) {
  if (!deleted) return false;
  return !failed || std::chrono::floor<seconds>(*failed) >= std::chrono::floor<seconds>(*deleted);
}

}  // namespace mlk
