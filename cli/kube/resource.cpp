#include "cli/kube/resource.h"

#include "cli/http/url.h"

namespace mlk::kube {

using http::percent_encode;

std::string path_of(const Resource& resource, const std::string& name_space, const std::string& name) {
  std::string path = (resource.group.empty() ? "/api/" : "/apis/") + api_version_of(resource);
  if (resource.namespaced && !name_space.empty()) path += "/namespaces/" + percent_encode(name_space);
  path += "/" + resource.plural;
  if (!name.empty()) path += "/" + percent_encode(name);
  return path;
}

std::string api_version_of(const Resource& resource) {
  return resource.group.empty() ? resource.version : resource.group + "/" + resource.version;
}

}  // namespace mlk::kube
