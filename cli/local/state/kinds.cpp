#include "cli/local/state/kinds.h"

#include <stdexcept>

namespace mlk::local {

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table = {
      {"", "v1", "namespaces", "namespace", "Namespace", {"ns"}, false, true, true, false},
      {"", "v1", "nodes", "node", "Node", {"no"}, false, false, true, false},
      {"", "v1", "serviceaccounts", "serviceaccount", "ServiceAccount", {"sa"}, true, false, false, false},
      {"", "v1", "configmaps", "configmap", "ConfigMap", {"cm"}, true, true, false, false},
      {"", "v1", "secrets", "secret", "Secret", {}, true, true, false, false},
      {"", "v1", "services", "service", "Service", {"svc"}, true, true, true, false},
      {"", "v1", "pods", "pod", "Pod", {"po"}, true, true, true, true},
      {"", "v1", "events", "event", "Event", {"ev"}, true, true, false, false},
      {"batch", "v1", "jobs", "job", "Job", {}, true, true, true, true},
      {"coordination.k8s.io", "v1", "leases", "lease", "Lease", {}, true, true, false, false},
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
