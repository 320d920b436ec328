// The kinds of objects that mlk uses, with their names in URLs.
#pragma once

#include <string>

namespace mlk::kube {

struct Resource {
  std::string group;  // empty for the core group
  std::string version;
  std::string plural;
  std::string kind;
  bool namespaced = true;  // false: objects of this kind belong to no namespace
};

namespace resources {
inline const Resource config_maps{"", "v1", "configmaps", "ConfigMap"};
inline const Resource secrets{"", "v1", "secrets", "Secret"};
inline const Resource services{"", "v1", "services", "Service"};
inline const Resource pods{"", "v1", "pods", "Pod"};
inline const Resource events{"", "v1", "events", "Event"};
inline const Resource nodes{"", "v1", "nodes", "Node", false};
inline const Resource jobs{"batch", "v1", "jobs", "Job"};
inline const Resource namespaces{"", "v1", "namespaces", "Namespace", false};
inline const Resource service_accounts{"", "v1", "serviceaccounts", "ServiceAccount"};
inline const Resource roles{"rbac.authorization.k8s.io", "v1", "roles", "Role"};
inline const Resource role_bindings{"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"};
}  // namespace resources

// "/api/v1/namespaces/NS/pods" or "/apis/batch/v1/namespaces/NS/jobs/NAME"; names are percent-encoded. The
// path is cluster-wide if the namespace is empty, or if objects of the kind belong to no namespace.
std::string path_of(const Resource& resource, const std::string& name_space, const std::string& name = "");
std::string api_version_of(const Resource& resource);  // "v1", "batch/v1"

}  // namespace mlk::kube
