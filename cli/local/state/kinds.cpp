#include "cli/local/state/kinds.h"

#include <stdexcept>

namespace mlk::local {

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table = {
      {.version = "v1",
       .plural = "namespaces",
       .singular = "namespace",
       .kind = "Namespace",
       .short_names = {"ns"},
       .namespaced = false,
       .has_status = true},
      {.version = "v1",
       .plural = "nodes",
       .singular = "node",
       .kind = "Node",
       .short_names = {"no"},
       .namespaced = false,
       .writable = false,
       .has_status = true},
      {.version = "v1",
       .plural = "serviceaccounts",
       .singular = "serviceaccount",
       .kind = "ServiceAccount",
       .short_names = {"sa"},
       .writable = false},
      {.version = "v1",
       .plural = "configmaps",
       .singular = "configmap",
       .kind = "ConfigMap",
       .short_names = {"cm"}},
      {.version = "v1", .plural = "secrets", .singular = "secret", .kind = "Secret"},
      {.version = "v1",
       .plural = "services",
       .singular = "service",
       .kind = "Service",
       .short_names = {"svc"},
       .has_status = true},
      {.version = "v1",
       .plural = "pods",
       .singular = "pod",
       .kind = "Pod",
       .short_names = {"po"},
       .has_status = true,
       .has_generation = true},
      {.version = "v1", .plural = "events", .singular = "event", .kind = "Event", .short_names = {"ev"}},
      {.group = "batch",
       .version = "v1",
       .plural = "jobs",
       .singular = "job",
       .kind = "Job",
       .has_status = true,
       .has_generation = true},
      {.group = "coordination.k8s.io",
       .version = "v1",
       .plural = "leases",
       .singular = "lease",
       .kind = "Lease"},
  };
  return table;
}

const Kind* find_kind(std::string_view group, std::string_view version, std::string_view plural) {
  for (const Kind& kind : kinds()) {
    if (kind.group == group && kind.version == version && kind.plural == plural) return &kind;
  }
  return nullptr;
}

const Kind& kind_of(std::string_view plural) {
  for (const Kind& kind : kinds()) {
    if (kind.plural == plural) return kind;
  }
  throw std::out_of_range("no kind " + std::string(plural));
}

}  // namespace mlk::local
