#include "cli/local/state/kinds.h"

#include <stdexcept>

namespace mlk::local {

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table = {
      {.plural = "namespaces",
       .kind = "Namespace",
       .short_names = {"ns"},
       .namespaced = false,
       .has_status = true},
      {.plural = "nodes",
       .kind = "Node",
       .short_names = {"no"},
       .namespaced = false,
       .writable = false,
       .has_status = true},
      {.plural = "serviceaccounts", .kind = "ServiceAccount", .short_names = {"sa"}, .writable = false},
      {.plural = "configmaps", .kind = "ConfigMap", .short_names = {"cm"}},
      {.plural = "secrets", .kind = "Secret"},
      {.plural = "services", .kind = "Service", .short_names = {"svc"}, .has_status = true},
      {.plural = "pods", .kind = "Pod", .short_names = {"po"}, .has_status = true, .has_generation = true},
      {.plural = "events", .kind = "Event", .short_names = {"ev"}},
      {.group = "batch", .plural = "jobs", .kind = "Job", .has_status = true, .has_generation = true},
      {.group = "coordination.k8s.io", .plural = "leases", .kind = "Lease"},
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
