#include "cli/run/change/versions.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/kube/objects.h"
#include "cli/run/facts/labels.h"
#include "cli/run/facts/order.h"
#include "cli/run/facts/owner.h"
#include "cli/util/json_path.h"

namespace mlk {

using nlohmann::json;

std::optional<std::string> version_before(const std::vector<json>& owners, const std::string& run) {
  const auto current = std::find_if(owners.begin(), owners.end(),
                                    [&](const json& owner) { return kube::name_of(owner) == run; });
  if (current == owners.end()) return std::nullopt;
  const json* before = nullptr;
  for (const json& owner : owners) {
    const bool is_run = kube::label_of(owner, labels::run) == kube::name_of(owner) && !is_sweep(owner) &&
                        !is_trial(owner) && at_path(owner, {"metadata", "deletionTimestamp"}).is_null();
    const bool other = kube::label_of(owner, labels::hash) != kube::label_of(*current, labels::hash);
    if (!is_run || !other || !(age_of(owner) < age_of(*current))) continue;
    if (before == nullptr || age_of(*before) < age_of(owner)) before = &owner;
  }
  return before == nullptr ? std::nullopt : std::optional(kube::name_of(*before));
}

}  // namespace mlk
