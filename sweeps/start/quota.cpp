#include "sweeps/start/quota.h"

#include <fmt/format.h>

#include "cli/kube/client.h"
#include "cli/kube/objects.h"
#include "cli/util/json_path.h"
#include "cli/util/text.h"

namespace mlk::sweeps {
namespace {

using nlohmann::json;

const kube::Resource resource_quotas{"", "v1", "resourcequotas", "ResourceQuota"};

struct Needed {
  const char* resource;
  const char* what;
};
constexpr Needed all_needed[] = {{"pods", "pods"},
                                 {"count/pods", "pods"},
                                 {"count/jobs.batch", "Jobs"},
                                 {"configmaps", "ConfigMaps"},
                                 {"count/configmaps", "ConfigMaps"}};

}  // namespace

std::string what_quota_forbids(const std::vector<json>& quotas) {
  for (const json& quota : quotas) {
    // A quota with scopes counts only some pods, and perhaps no pods of trials.
    const bool of_all =
        at_path(quota, {"spec", "scopes"}).empty() && at_path(quota, {"spec", "scopeSelector"}).empty();
    if (!of_all) continue;
    for (const auto& [resource, what] : all_needed) {
      if (text_of(quota, {"spec", "hard", resource}) == "0")
        return printable(fmt::format("the quota '{}' allows no {}", kube::name_of(quota), what));
    }
  }
  return "";
}

void require_quota(kube::Client& client, const std::string& name_space) {
  std::string forbidden;
  try {
    forbidden = what_quota_forbids(client.list(resource_quotas, name_space, {}).items);
  } catch (const kube::ApiError& error) {
    if (error.status() != 403 && error.status() != 404) throw;
  }
  if (forbidden.empty()) return;
  throw Error(ExitCode::cannot_start,
              fmt::format("no trial can run in namespace '{}': {}", name_space, forbidden),
              "choose another namespace with -n, or ask for a larger quota");
}

}  // namespace mlk::sweeps
