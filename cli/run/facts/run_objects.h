// The objects of a run, as the API server gives them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/run/facts/metrics.h"

namespace mlk {

// The objects of one run, as the API server gives them, and what mlk has read besides: logs, Nodes and the
// Service. Jobs, pods and events are in any order.
struct RunObjects {
  nlohmann::json owner;
  std::vector<nlohmann::json> jobs, pods, events;
  std::map<std::string, MetricsLine> lines{};  // the newest metrics of each log, by pod uid
  std::map<std::string, std::string>
      endings{};  // the ends of logs, each longer than its part in the pod's status; by pod uid
  std::map<std::string, std::string>
      last_words{};  // the ends of the logs of failed containers other than main, by last_words_key()
  std::map<std::string, nlohmann::json> nodes{};  // Nodes that were read, by name; null: does not exist
  bool service_is_gone = false;                   // true: mlk asked for the Service, and it does not exist
};

// The key in RunObjects::last_words.
std::string last_words_key(const std::string& pod_uid, const std::string& container);

}  // namespace mlk
