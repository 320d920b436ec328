#include "cli/kube/discovery.h"

#include <algorithm>

#include "cli/http/url.h"
#include "cli/util/json_path.h"

namespace mlk::kube {
namespace {

struct GroupVersion {
  std::string group, version;
};

GroupVersion split_version(const std::string& api_version) {
  const std::size_t slash = api_version.find('/');
  if (slash == std::string::npos) return {"", api_version};
  return {api_version.substr(0, slash), api_version.substr(slash + 1)};
}

bool can_be_created(const json& entry) {
  const json& verbs = at_path(entry, {"verbs"});
  return verbs.is_array() && std::find(verbs.begin(), verbs.end(), "create") != verbs.end();
}

}  // namespace

std::string discovery_path(const std::string& api_version) {
  const auto [group, version] = split_version(api_version);
  const std::string root = group.empty() ? "/api/" : "/apis/" + http::percent_encode(group) + "/";
  return root + http::percent_encode(version);
}

std::vector<Resource> resources_in(const json& list, const std::string& api_version) {
  const auto [group, version] = split_version(api_version);
  std::vector<Resource> found;
  const json& resources = at_path(list, {"resources"});
  if (!resources.is_array()) return found;
  for (const json& entry : resources) {
    if (!can_be_created(entry)) continue;
    const std::string plural = text_of(entry, {"name"});
    const std::string kind = text_of(entry, {"kind"});
    const bool is_part = plural.find('/') != std::string::npos;  // a subresource, such as "pods/log"
    if (plural.empty() || kind.empty() || is_part) continue;
    found.push_back({.group = group,
                     .version = version,
                     .plural = plural,
                     .kind = kind,
                     .namespaced = at_path(entry, {"namespaced"}) == true});
  }
  return found;
}

}  // namespace mlk::kube
