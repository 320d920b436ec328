// Reads the Nodes of the pods, if the user may read them. One watch reports all Nodes at once. Nodes in doubt
// are also polled by name, since the user may not be allowed to watch, or the watch may be dead without a
// sign.
#pragma once

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/kube/client.h"
#include "cli/kube/reflector.h"
#include "cli/run/state/status.h"

namespace mlk {

class NodeReads {
 public:
  // The client must outlive this object.
  NodeReads(kube::Client& client, std::chrono::milliseconds ask_again)
      : client_(client), ask_again_(ask_again) {}

  // Reads the answers so far, and sends requests for Nodes that may change. Does not wait. Watches at most 64
  // nodes, in the order of their names, and polls at most 64 nodes within `ask_again`.
  void poll(const std::vector<const RunObjects*>& runs);

  // Reads the answers so far. Returns whether all requests were answered.
  bool collect();

  // Adds the known Nodes of these pods to `objects`.
  void add(RunObjects& objects) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Node {
    std::future<kube::Answer> answer;
    Clock::time_point asked{};
    std::optional<nlohmann::json> known;  // null: the node does not exist
    std::optional<std::string> shown;     // the version of the node in the watch, if the node is there
  };

  void watch(const std::set<std::string>& names);
  void ask(const std::set<std::string>& names);
  void collect(Node& node);
  bool collect_watched();

  kube::Client& client_;
  const std::chrono::milliseconds ask_again_;
  std::map<std::string, Node> nodes_;
  bool may_ask_ = true, may_watch_ = true;
  std::set<std::string> watched_;
  Clock::time_point watched_since_{};
  std::unique_ptr<kube::Reflector> reflector_;
};

}  // namespace mlk
