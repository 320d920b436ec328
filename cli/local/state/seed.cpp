#include "cli/local/state/seed.h"

#include <thread>

#include "cli/local/state/metadata.h"
#include "cli/util/json_path.h"

namespace mlk::local {
namespace {

json metadata_of(const std::string& name, Time now) {
  return {{"name", name}, {"uid", new_uid()}, {"creationTimestamp", format_time(now)}};
}

}  // namespace

void add_default_account(Store& store, const std::string& name_space, Time now) {
  if (store.find("serviceaccounts", name_space, "default")) return;
  json metadata = metadata_of("default", now);
  metadata["namespace"] = name_space;
  store.create("serviceaccounts", {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", metadata}});
}

void seed(Store& store, Time now, std::size_t gpus) {
  if (!store.find("namespaces", "", "default")) {
    json metadata = metadata_of("default", now);
    metadata["labels"]["kubernetes.io/metadata.name"] = "default";
    store.create("namespaces", {{"apiVersion", "v1"},
                                {"kind", "Namespace"},
                                {"metadata", metadata},
                                {"spec", {{"finalizers", {"kubernetes"}}}},
                                {"status", {{"phase", "Active"}}}});
  }
  add_default_account(store, "default", now);
  json capacity = {{"cpu", std::to_string(std::thread::hardware_concurrency())}, {"pods", "1000"}};
  if (gpus > 0) capacity["nvidia.com/gpu"] = std::to_string(gpus);
  if (const Object node = store.find("nodes", "", "local")) {
    if (at_path(*node, {"status", "capacity"}) == capacity) return;
    store.modify("nodes", "", "local", [&](json& current) {
      current["status"]["capacity"] = current["status"]["allocatable"] = capacity;
    });
    return;
  }
  json metadata = metadata_of("local", now);
  metadata["labels"] = {{"kubernetes.io/hostname", "local"}};
  store.create("nodes", {{"apiVersion", "v1"},
                         {"kind", "Node"},
                         {"metadata", metadata},
                         {"spec", json::object()},
                         {"status",
                          {{"capacity", capacity},
                           {"allocatable", capacity},
                           {"conditions", json::array({{{"type", "Ready"},
                                                        {"status", "True"},
                                                        {"reason", "KubeletReady"},
                                                        {"lastHeartbeatTime", format_time(now)},
                                                        {"lastTransitionTime", format_time(now)}}})},
                           {"addresses", json::array({{{"type", "InternalIP"}, {"address", "127.0.0.1"}}})},
                           {"nodeInfo", {{"kubeletVersion", "v1.37.0+mlk"}}}}}});
}

}  // namespace mlk::local
