// What the Nodes say on which pods lie, where they may be read. One watch tells of all of them at once; those
// in doubt are asked by name as well, again and again: by whoever may not watch, and in case that the watch
// is dead without a sign.
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
  // The client must outlive it.
  NodeReads(kube::Client& client, std::chrono::milliseconds ask_again)
      : client_(client), ask_again_(ask_again) {}

  // Takes what has come, and asks for what may change. Does not wait. At most 64 nodes are watched, those of
  // the first names, and at most 64 asked in the time after which one is asked again.
  void look(const std::vector<const RunObjects*>& runs);

  // Takes what has come; whether that is all that was asked for.
  bool take();

  // Adds what is known of the nodes of these pods.
  void add(RunObjects& objects) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Node {
    std::future<kube::Answer> answer;
    Clock::time_point asked{};
    std::optional<nlohmann::json> known;  // null: there is none
    std::optional<std::string> shown;     // its version that the watch has, if it has it
  };

  void watch(const std::set<std::string>& names);
  void ask(const std::set<std::string>& names);
  void take(Node& node);
  bool take_watched();

  kube::Client& client_;
  const std::chrono::milliseconds ask_again_;
  std::map<std::string, Node> nodes_;
  bool may_ask_ = true, may_watch_ = true;
  std::set<std::string> watched_;
  Clock::time_point watched_since_{};
  std::unique_ptr<kube::Reflector> reflector_;
};

}  // namespace mlk
