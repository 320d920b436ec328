#include "cli/run/facts/deletion.h"

#include <chrono>

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/util/json_path.h"

namespace mlk {

using nlohmann::json;
using std::chrono::seconds;

namespace {

// Whether the Job was deleted because it had failed. `second`: the second of its deletion.
// https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
bool was_deleted_by_its_end(const json& job, const std::chrono::sys_seconds& second) {
  if (number_of(job, {"spec", "ttlSecondsAfterFinished"}, -1) != 0) return false;
  const json* failed = kube::condition_of(job, "Failed");
  const std::optional<Time> at = failed ? time_of(*failed, {"lastTransitionTime"}) : std::nullopt;
  return at && std::chrono::floor<seconds>(*at) == second;
}

}  // namespace

std::optional<Time> deletion_of(const json& object) {
  const std::optional<Time> deadline = time_of(object, {"metadata", "deletionTimestamp"});
  if (!deadline) return std::nullopt;
  return *deadline - seconds(number_of(object, {"metadata", "deletionGracePeriodSeconds"}, 0));
}

bool came_with_deletion(const std::optional<Time>& failed, const json& job) {
  const std::optional<Time> deleted = deletion_of(job);
  if (!deleted) return false;
  if (!failed) return true;
  const auto second = std::chrono::floor<seconds>(*deleted), at = std::chrono::floor<seconds>(*failed);
  return at > second || (at == second && !was_deleted_by_its_end(job, second));
}

}  // namespace mlk
